#pragma once
#include <cstdlib>

/// The number that this variable gives a process, such as Open MPI's launcher does; 0 without it.
inline int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}
