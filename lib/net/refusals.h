#pragma once
#include <cstddef>
#include <string>

namespace tutti::net {

/// Logs connections that were closed because of their peers, at a limited rate: a line for the 1st,
/// 2nd, 4th, 8th and so on, and one at the end for those after the last line.
class Refusals {
 public:
  /// `which` follows the number of connections: "that came in".
  Refusals(std::string who, std::string which);
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  /// `address` is the peer's, as it was when the connection came.
  void add(const std::string& address, const std::string& reason);

 private:
  void say();

  const std::string who_;
  const std::string which_;
  std::size_t count_ = 0;
  std::size_t said_ = 0;
  std::string last_reason_;
};

}  // namespace tutti::net
