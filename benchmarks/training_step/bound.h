#pragma once
#include <cstddef>
#include <span>

namespace tutti::bench {

/// What a step spends on one layer.
struct LayerCost {
  double forward = 0;   ///< seconds
  double backward = 0;  ///< seconds
  double bytes = 0;     ///< of its gradients, as they travel
};

/// How long a link that carries so many gigabits of payload a second is held by each byte of a
/// tensor that n hosts sum up: an allreduce moves 2(n-1)/n times the tensor over each link.
double seconds_per_byte(double link_gbps, int hosts);

/// The shortest time, in seconds, from one step's backward pass to the next one's. `layers` are in
/// forward order.
///
/// Backward runs from the last layer L to the first, so that the gradients of layer l and of those
/// in front of it are not ready before r_l = b_L + ... + b_l. They need (S_1 + ... + S_l)·c of the
/// link, c being the seconds a byte. The last of them to arrive belongs to some layer j <= l, and
/// when it is there forward has at least f_l + ... + f_L to go. Hence, whatever the order in which
/// tensors travel and however finely they are cut:
///
///   T >= max over l of  (b_L + ... + b_l) + (S_1 + ... + S_l)·c + (f_l + ... + f_L)
///
/// With l = 1 it is what the compute alone takes and the first layer's journey, with l = L what
/// the link takes and the last layer's compute. A link without latency that always carries the most
/// urgent gradient that is ready reaches it: this is Jackson's schedule of one machine with release
/// and delivery times, of which the chains of both passes leave these cases alone.
double step_bound(std::span<const LayerCost> layers, double seconds_per_byte);

}  // namespace tutti::bench
