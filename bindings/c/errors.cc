#include <algorithm>
#include <new>
#include <string>

#include "guard.h"
#include "tutti/version.h"

namespace tutti::c {
namespace {

thread_local ErrorView last_error;

/// Makes an Error of any exception. An exception that is not tutti's becomes `internal`.
Error as_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::internal, "out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception that is no std::exception"};
  }
}

}  // namespace

ErrorView::ErrorView(const std::exception_ptr& thrown) noexcept {
  try {
    error_ = as_error(thrown);
  } catch (...) {
    // Even the text of the error did not fit into memory. This text needs none.
    shown_ = {TUTTI_INTERNAL, "out of memory", 0, {nullptr, 0}, nullptr, 0};
  }
}

const tutti_error& ErrorView::get() noexcept {
  if (!error_) return shown_;
  const std::span<const int> ranks = error_->ranks();
  shown_ = {static_cast<int>(error_->code()),
            error_->what(),
            0,
            {nullptr, 0},
            ranks.data(),
            ranks.size()};
  if (const Key* const key = error_->key()) {
    shown_.has_key = 1;
    if (key->is_integer()) {
      shown_.key.integer = key->integer();
    } else {
      shown_.key.text = key->string().c_str();
    }
  }
  return shown_;
}

int fail(const std::exception_ptr& error) noexcept {
  last_error = ErrorView(error);
  return last_error.get().code;
}

void refuse_null(const char* function, const std::string& argument) {
  throw Error(ErrorCode::invalid_argument,
              std::string(function) + ": " + argument + " is a null pointer");
}

}  // namespace tutti::c

const tutti_error* tutti_last_error() {
  return &tutti::c::last_error.get();
}

const char* tutti_code_name(int code) {
  constexpr int last = TUTTI_INTERNAL;
  // The names are literals.
  return code >= 0 && code <= last ? tutti::name(static_cast<tutti::ErrorCode>(code)).data()
                                   : "unknown";
}

const char* tutti_version() {
  return tutti::version();
}

const char* tutti_build_type() {
  return tutti::build_type();
}
