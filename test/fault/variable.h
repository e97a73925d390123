#pragma once
#include <cstdlib>

/// The number that Open MPI's launcher gives a process in this variable; 0 without the launcher.
inline int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}
