#pragma once
/// The names that nvcc defines for a .cu, for a compiler of C++. One thread runs after the other.
struct Index {
  unsigned x = 0;
};
inline thread_local Index threadIdx;
inline thread_local Index blockIdx;
inline thread_local Index blockDim;
inline thread_local Index gridDim;

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)
