#pragma once
#include <string>

#include "collective/batch.h"

namespace tutti::collective {

/// Moves a batch in steps, from its start until it is done. One thread at a time drives it. Nothing
/// blocks.
class Mover {
 public:
  Mover() = default;
  virtual ~Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// Does a bounded piece of work, some tens of microseconds.
  virtual Progress step() = 0;
  /// Begins work that a device can do by itself, and looks for work that it has ended. This takes
  /// the thread no time, so the batch need not wait for the one before it. Returns true if
  /// something moved.
  virtual bool drive_device() = 0;
  /// Whether the device has been told all that it has to do for the batch.
  virtual bool is_issued() const = 0;
  /// Whether a transfer between nodes or work of a device is under way. Neither rings a bell.
  virtual bool is_polling() const = 0;
  /// Whether work of a device, or the program's work before it, is under way.
  virtual bool is_copying() const = 0;
  /// Says what is done, for what it waits, and which ranks hold it up.
  virtual std::string describe() const = 0;
};

}  // namespace tutti::collective
