#pragma once
#include <catch2/catch.hpp>
#include <string>

#include "tutti/error.h"

namespace tutti {

/// The text of the Error that `call` throws; fails the test unless it has this code.
template <typename Call>
std::string text_of(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(name(error.code()) == name(code));
    return error.what();
  }
  FAIL("no error was thrown");
  return {};
}

/// The Error that `call` throws, as "peer_lost: worker 1 is lost"; or "no error".
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace tutti
