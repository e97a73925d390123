#pragma once
// Checks of a FlatBuffer beyond those of its verifier.
#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "tutti/error.h"

namespace tutti::base {

[[noreturn]] inline void malformed(const char* what) {
  throw Error(ErrorCode::internal, std::string("malformed message: ") + what);
}

/// The enumerator, if the number is at most that of `last`.
template <typename Enum>
Enum checked(std::uint8_t number, Enum last) {
  if (number > static_cast<std::uint8_t>(last)) malformed("an enumerator out of range");
  return static_cast<Enum>(number);
}

/// A list that must be there. FlatBuffers aligns a list that has elements, but does not verify
/// that.
template <typename Element>
const flatbuffers::Vector<Element>& needed(const flatbuffers::Vector<Element>* list) {
  if (list == nullptr) malformed("a list is missing");
  const auto at = reinterpret_cast<std::uintptr_t>(list->Data());
  if (list->size() > 0 && at % alignof(std::remove_pointer_t<Element>) != 0) {
    malformed("a list that is not aligned");
  }
  return *list;
}

}  // namespace tutti::base
