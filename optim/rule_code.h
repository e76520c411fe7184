// What the arithmetic of rules is written in: functions that the CPU's loops
// and the kernels of GPUs have in common, so that each formula stands once.
//
// Both give the same bits where neither fuses multiply and add: the flags say
// so (optim/BUILD, nn/cuda/BUILD). Of the library such a function uses
// what has IEEE's one right result, like std::sqrt.

#ifndef OARLOCK_OPTIM_RULE_CODE_H_
#define OARLOCK_OPTIM_RULE_CODE_H_

#ifdef __CUDACC__
#define OARLOCK_RULE_CODE __host__ __device__ inline
#else
// Always: a loop over weights becomes one of vectors only with all of the
// arithmetic in it, and calls go to code of another instruction set.
#define OARLOCK_RULE_CODE [[gnu::always_inline]] inline
#endif

namespace oarlock::optim {

// Two means over the weights of a row or block, of what the rule says.
struct RuleMeans {
  double first;
  double second;

  OARLOCK_RULE_CODE RuleMeans& operator+=(const RuleMeans& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

// Whether a rule (optim/rules.h) begins an update, and whether it takes means
// for that.
template <typename Rule>
inline constexpr bool kBegins = requires {
  &Rule::Begin;
};
template <typename Rule>
inline constexpr bool kTakesMeans = requires {
  &Rule::Terms;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_RULE_CODE_H_
