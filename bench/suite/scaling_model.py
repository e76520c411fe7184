"""How long a training step of n ranks takes: a prediction from measured parts.

A step of one rank is forward, backward, update and the rest (waiting for
images), in seconds. Through backward gradients become final from the last to
the first; runs of them, the buckets, are summed one after the other by a second
thread, in the order in which they become final. An update begins when both
backward and the last sum are through.

A ring of n ranks sums a bucket of S bytes in 2 (n - 1) hops, and each rank
sends and receives 2 (n - 1) / n of the bytes:

    T(S, n) = 2 (n - 1) latency + 2 (n - 1) / n * S / bandwidth

It takes CPU time of each rank: C(S, n) = 2 (n - 1) cpu_hop + 2 (n - 1) / n * S
* cpu_byte, so that a network faster than a core gains nothing: T is at least C.
That CPU time is taken from the rank's only core, where backward is meant to run:
while a sum is under way backward advances by 1 - C / T. With `spare_core` it
advances as ever.

latency, bandwidth, cpu_hop and cpu_byte of this machine's loopback are fitted
to measured sums of several sizes. For real nodes latency and bandwidth are an
assumption, and cpu_hop and cpu_byte stay those of loopback, where the kernel
copies as much.

Not in it: ranks that wait for the slowest of them, networks that others use
too, reading images faster than one rank did alone.
"""

import dataclasses


@dataclasses.dataclass
class Step:
    """Of one rank, in seconds."""
    forward: float
    backward: float
    update: float
    rest: float
    gradient_bytes: int
    # (first byte, seconds after backward's begin), as they become final.
    finals: list

    @property
    def seconds(self):
        return self.forward + self.backward + self.update + self.rest


@dataclasses.dataclass
class Link:
    """What ranks talk over: s, B/s, s, s/B."""
    latency: float
    bandwidth: float
    cpu_hop: float
    cpu_byte: float

    def sum_seconds(self, num_bytes, ranks):
        hops, share = 2 * (ranks - 1), 2 * (ranks - 1) / ranks
        return max(hops * self.latency + share * num_bytes / self.bandwidth,
                   self.cpu_seconds(num_bytes, ranks))

    def cpu_seconds(self, num_bytes, ranks):
        hops, share = 2 * (ranks - 1), 2 * (ranks - 1) / ranks
        return hops * self.cpu_hop + share * num_bytes * self.cpu_byte

    def over(self, latency, bandwidth):
        """The same ranks with another network between them."""
        return dataclasses.replace(self, latency=latency, bandwidth=bandwidth)


def _line(points):
    """(a, b) of y = a + b x, least squares of relative errors; neither is
    negative."""
    s = sx = sxx = sy = sxy = 0.0
    for x, y in points:
        weight = 1 / (y * y)
        s += weight
        sx += weight * x
        sxx += weight * x * x
        sy += weight * y
        sxy += weight * x * y
    b = (s * sxy - sx * sy) / (s * sxx - sx * sx)
    a = (sy - b * sx) / s
    if a < 0:
        return 0.0, sxy / sxx
    return a, max(b, 0.0)


def fit(sums, ranks):
    """The Link of measured sums: (bytes, seconds, CPU seconds of a rank)."""
    hops, share = 2 * (ranks - 1), 2 * (ranks - 1) / ranks
    hop, byte = _line([(size, seconds) for size, seconds, _ in sums])
    cpu_hop, cpu_byte = _line([(size, cpu) for size, _, cpu in sums])
    return Link(latency=hop / hops, bandwidth=share / byte,
                cpu_hop=cpu_hop / hops, cpu_byte=cpu_byte / share)


def buckets(step, bucket_bytes):
    """(bytes, seconds after backward's begin): at least bucket_bytes each, but
    for the last."""
    result, end = [], step.gradient_bytes
    for first, seconds in step.finals:
        if first < end and (end - first >= bucket_bytes or first == 0):
            result.append((end - first, seconds))
            end = first
    return result


@dataclasses.dataclass
class Prediction:
    step_seconds: float
    # Sums were under way.
    communication_seconds: float
    # What the step takes longer than one rank's alone.
    cost_seconds: float


def predict(step, link, ranks, bucket_bytes, spare_core=False):
    """A step of `ranks` ranks, each with a batch as large as `step`'s."""
    if ranks == 1:
        return Prediction(step.seconds, 0.0, 0.0)
    clock = 0.0  # since backward's begin
    done = 0.0  # how much of backward is through, as seconds of it alone
    communication = 0.0
    for num_bytes, final in buckets(step, bucket_bytes):
        if done < final:  # nothing is summed until then
            clock += final - done
            done = final
        seconds = link.sum_seconds(num_bytes, ranks)
        taken = 0.0 if spare_core else link.cpu_seconds(num_bytes, ranks)
        clock += seconds
        done = min(step.backward, done + seconds - taken)
        communication += seconds
    clock += step.backward - done
    cost = max(0.0, clock - step.backward)
    return Prediction(step.seconds + cost, communication, cost)
