#pragma once
#include <string>

#include "collective/batch.h"

namespace tutti::collective {

/// Moves a batch in steps, from its start until it is done. One thread at a time drives it; nothing
/// blocks.
class Mover {
 public:
  Mover() = default;
  virtual ~Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// Does a bounded piece of work, some tens of microseconds.
  virtual Progress step() = 0;
  /// Begins what a device may begin by itself, and looks for what it has ended. This takes the
  /// thread no time, so the batch before this one need not wait for it. True: some moved.
  virtual bool drive_device() = 0;
  /// A device has been told all that it has to do for the batch.
  virtual bool is_issued() const = 0;
  /// A transfer between nodes, or work of a device, is under way, which rings no bell.
  virtual bool is_polling() const = 0;
  /// Work of a device is under way, or the program's work before it.
  virtual bool is_copying() const = 0;
  /// Says what is done, what is waited for, and which ranks hold it up.
  virtual std::string describe() const = 0;
};

}  // namespace tutti::collective
