#include "net/refusals.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "base/log.h"

namespace tutti::net {

Refusals::Refusals(std::string who, std::string which)
    : who_(std::move(who)), which_(std::move(which)) {}

Refusals::~Refusals() {
  if (count_ > said_) say();
}

void Refusals::add(const std::string& address, const std::string& reason) {
  ++count_;
  last_reason_ = address.empty() ? reason : fmt::format("{} ({})", reason, address);
  if (std::has_single_bit(count_)) say();
}

void Refusals::say() {
  said_ = count_;
  base::log().warn("{} has closed {} connection{} {}{}: {}", who_, count_, count_ == 1 ? "" : "s",
                   which_, count_ == 1 ? "" : ", the last one because", last_reason_);
}

}  // namespace tutti::net
