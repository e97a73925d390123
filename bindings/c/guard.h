#pragma once
// Turns an exception into a code and the thread's last error.
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "tutti/c.h"
#include "tutti/error.h"

namespace tutti::c {

/// An error as the C API shows it. Pointers into it are valid as long as it lives.
class ErrorView {
 public:
  /// Says that nothing has failed.
  ErrorView() = default;
  /// Makes an error of any exception. If there is no memory for its text, the text is "out of
  /// memory".
  explicit ErrorView(const std::exception_ptr& thrown) noexcept;

  const tutti_error& get() noexcept;

 private:
  std::optional<Error> error_;
  tutti_error shown_{TUTTI_OK, "", 0, {nullptr, 0}, nullptr, 0};
};

/// Keeps the error as this thread's last error, and returns its code.
int fail(const std::exception_ptr& error) noexcept;
/// Throws `invalid_argument` with a text such as "tutti_store_create: type is a null pointer".
[[noreturn]] void refuse_null(const char* function, const std::string& argument);

template <typename T>
T& at(T* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) refuse_null(function, argument);
  return *pointer;
}

/// Runs the body of a function that returns a code.
template <typename Body>
int guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return TUTTI_OK;
  } catch (...) {
    return fail(std::current_exception());
  }
}

/// Runs the body of a function that returns a value. Returns `none` if the body fails.
template <typename Answer, typename Body>
Answer answered(Answer none, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    fail(std::current_exception());
    return none;
  }
}

}  // namespace tutti::c
