#pragma once
#include <cstddef>
#include <span>

namespace tutti::bench {

/// The times that a step spends on one layer.
struct LayerCost {
  double forward = 0;   ///< seconds
  double backward = 0;  ///< seconds
  double bytes = 0;     ///< of its gradients, as they travel
};

/// How long a link of `link_gbps` gigabits of payload a second is busy with each byte of a tensor
/// that n hosts sum. An allreduce moves 2(n-1)/n times the tensor over each link.
double seconds_per_byte(double link_gbps, int hosts);

/// A lower bound on the time, in seconds, from one step's backward pass to the next one's. `layers`
/// are in forward order.
///
/// The backward pass runs from the last layer L to the first. So the gradients of layers 1 to l are
/// not ready before r_l = b_L + ... + b_l. They need the link for (S_1 + ... + S_l)·c, where c is
/// the seconds a byte. The last of them to arrive belongs to some layer j <= l, and after it the
/// forward pass still needs f_l + ... + f_L at least. Hence, in whatever order tensors travel and
/// however finely they are cut:
///
///   T >= max over l of  (b_L + ... + b_l) + (S_1 + ... + S_l)·c + (f_l + ... + f_L)
///
/// With l = 1 it is all of the computing and the first layer's transfer; with l = L it is all of
/// the transfers and the last layer's computing. A link without latency that always carries the
/// most urgent gradient that is ready reaches the bound. This is Jackson's schedule of one machine
/// with release and delivery times; the chains of the two passes leave only these cases.
double step_bound(std::span<const LayerCost> layers, double seconds_per_byte);

}  // namespace tutti::bench
