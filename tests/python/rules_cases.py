"""The tables of rules_test.py as Python declares them; rules_tables.txt has the same
in the words of C++. Names, kinds and numbers say what is special about each."""

from oarlock_testing import oarlock

# All sparse tables have it, and all dense ones as many floats.
DIM, SIZE = 4, 41

_SGD = oarlock.Sgd(0.1)
_OWN_ADAM = {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-4}


def _scheduled(**schedule):
    return {"optimizer": oarlock.Sgd(0.1, schedule=schedule)}


# Arguments of create_table beside name, dim and seed 11.
OPTIMIZERS = {
    "sgd": {"optimizer": _SGD},
    "sgd_l1": {"optimizer": oarlock.Sgd(0.1, l1=0.03)},
    "sgd_l2": {"optimizer": oarlock.Sgd(0.1, l2=0.7)},
    "sgd_bounds": {"optimizer": oarlock.Sgd(0.1, weight_bounds=(-0.25, 0.125))},
    "sgd_warm": {"optimizer": oarlock.Sgd(0.1, warmup_steps=9)},
    "sgd_exponential": _scheduled(exponential={"steps": 7, "rate": 0.8}),
    "sgd_polynomial": _scheduled(
        polynomial={"steps": 9, "end_factor": 0.1, "power": 1.5}),
    "sgd_cosine": _scheduled(cosine={"steps": 11, "end_factor": 0.2}),
    "sgd_step": _scheduled(step={"steps": 4, "rate": 0.5}),
    "sgd_piecewise": _scheduled(piecewise={"pieces": [
        {"until_step": 3, "factor": 1}, {"until_step": 8, "factor": 0.3}]}),
    "adagrad": {"optimizer": oarlock.Adagrad(0.1)},
    "adagrad_own": {"optimizer": oarlock.Adagrad(
        0.1, initial_accumulator=0.5, epsilon=0.01)},
    "shared_adagrad": {"optimizer": oarlock.SharedAdagrad(0.1)},
    "shared_adagrad_own": {"optimizer": oarlock.SharedAdagrad(
        0.1, initial_accumulator=0.5, epsilon=0.01)},
    "adam": {"optimizer": oarlock.Adam(0.01)},
    "adam_own": {"optimizer": oarlock.Adam(0.01, **_OWN_ADAM)},
    "lazy_adam": {"optimizer": oarlock.LazyAdam(0.01)},
    "lazy_adam_own": {"optimizer": oarlock.LazyAdam(0.01, **_OWN_ADAM)},
    "shared_adam": {"optimizer": oarlock.SharedAdam(0.01)},
    "shared_adam_own": {"optimizer": oarlock.SharedAdam(0.01, **_OWN_ADAM)},
    "adamw": {"optimizer": oarlock.Adamw(0.01)},
    "adamw_own": {"optimizer": oarlock.Adamw(
        0.01, weight_decay=0.3, **_OWN_ADAM)},
    "momentum": {"optimizer": oarlock.Momentum(0.1)},
    "momentum_own": {"optimizer": oarlock.Momentum(0.1, momentum=0.5)},
    "momentum_nesterov": {"optimizer": oarlock.Momentum(
        0.1, momentum=0.5, nesterov=True)},
    "ftrl": {"optimizer": oarlock.Ftrl(0.1)},
    "ftrl_own": {"optimizer": oarlock.Ftrl(0.1, l1=0.02, l2=0.5, beta=0.25)},
}
INITIALS = {
    "uniform": {"optimizer": _SGD, "initial": oarlock.Uniform(0.3)},
    "normal": {"optimizer": _SGD, "initial": oarlock.Normal(0.3)},
    "constant": {"optimizer": _SGD, "initial": oarlock.Constant(0.7)},
    "number": {"optimizer": _SGD, "initial": -2},
    "seeded": {"optimizer": _SGD, "initial": oarlock.Uniform(0.3),
               "seed": 2**64 - 59},
    "summed": {"optimizer": _SGD, "initial": 0.1, "reduction": "sum"},
}
ADMISSIONS = {
    "count": {"admission": oarlock.CountAdmission(4)},
    "count_small": {"admission": oarlock.CountAdmission(4, sketch_bytes=16384)},
    "probability": {"admission": oarlock.ProbabilityAdmission(0.3)},
    "probability_seeded": {"admission": oarlock.ProbabilityAdmission(0.3),
                           "seed": 5},
    "show_click": {"ctr": oarlock.Ctr(),
                   "admission": oarlock.ShowClickAdmission(4.5)},
    "show_click_small": {
        "ctr": oarlock.Ctr(),
        "admission": oarlock.ShowClickAdmission(4.5, sketch_bytes=16384)},
}
EVICTIONS = {
    "idle": {"eviction": oarlock.Eviction(idle_ticks=2, period_ticks=1)},
    "period": {"eviction": oarlock.Eviction(idle_ticks=1, period_ticks=2)},
    "oldest": {"eviction": oarlock.Eviction(rows_max=256, period_ticks=1)},
    "oldest_low": {"eviction": oarlock.Eviction(rows_max=256, low_mark=0.5,
                                                period_ticks=1)},
    "low_score": {"ctr": oarlock.Ctr(),
                  "eviction": oarlock.Eviction(score_min=2.5, period_ticks=1)},
    "lowest": {"ctr": oarlock.Ctr(),
               "eviction": oarlock.Eviction(rows_max=256, period_ticks=1)},
    "coefficients": {
        "ctr": oarlock.Ctr(non_click_coefficient=0.5, click_coefficient=0.25),
        "eviction": oarlock.Eviction(score_min=2.5, period_ticks=1)},
    "decay": {"ctr": oarlock.Ctr(decay_rate=0.5, decay_period_ticks=2),
              "eviction": oarlock.Eviction(score_min=2.5, period_ticks=1)},
}
OTHERS = {
    "divided": {"ctr": oarlock.Ctr(divide_by_show=True)},
    "everything": {
        "optimizer": oarlock.Adam(0.01, l2=0.01, beta1=0.7),
        "initial": oarlock.Normal(0.01),
        "ctr": oarlock.Ctr(click_coefficient=2.0, decay_rate=0.9,
                           decay_period_ticks=1),
        "admission": oarlock.CountAdmission(2, sketch_bytes=2**20),
        "eviction": oarlock.Eviction(idle_ticks=3, score_min=0.5, rows_max=320,
                                     low_mark=0.8, period_ticks=1)},
}
SPARSE = {**OPTIMIZERS, **INITIALS, **ADMISSIONS, **EVICTIONS, **OTHERS}

# Arguments of create_dense beside name and what create() gives. A block that every push
# reaches is as old as the table: adam and lazy_adam would be the same.
DENSE = {
    "dense_sgd": {"optimizer": _SGD},
    "dense_bounds": {"optimizer": oarlock.Sgd(
        0.1, l1=0.03, l2=0.7, warmup_steps=9, weight_bounds=(-0.25, 0.125),
        schedule={"cosine": {"steps": 11, "end_factor": 0.2}})},
    "dense_adagrad": {"optimizer": oarlock.Adagrad(0.1, epsilon=0.01)},
    "dense_shared_adagrad": {"optimizer": oarlock.SharedAdagrad(
        0.1, epsilon=0.01)},
    "dense_adam": {"optimizer": oarlock.Adam(0.01)},
    "dense_lazy_adam": {"optimizer": oarlock.LazyAdam(0.01, beta1=0.8)},
    "dense_shared_adam": {"optimizer": oarlock.SharedAdam(0.01)},
    "dense_adamw": {"optimizer": oarlock.Adamw(0.01, weight_decay=0.3)},
    "dense_momentum": {"optimizer": oarlock.Momentum(0.1, nesterov=True)},
    "dense_ftrl": {"optimizer": oarlock.Ftrl(0.1, l1=0.02, beta=0.25)},
    "dense_initial": {
        "optimizer": _SGD,
        "parameters": {"u": (20,), "n": (2, 5), "c": (10,), "z": ()},
        "initial": {"u": oarlock.Uniform(0.3), "n": oarlock.Normal(0.3),
                    "c": 0.7},
        "block_size": 7},
}


def create(job, name):
    """Declares the table of this name."""
    if name in SPARSE:
        return job.create_table(
            name, DIM, **{"optimizer": _SGD, "seed": 11, **SPARSE[name]})
    return job.create_dense(
        name, **{"parameters": {"w": (7, 5), "b": (6,)}, "block_size": 16,
                 "seed": 11, **DENSE[name]})
