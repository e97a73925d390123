#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/completion.h"
#include "kvstore/backend.h"

/// The implementation of a store that exchanges nothing. It writes down its calls, for tests of the
/// code above a store.
class RecordingStore : public tutti::Backend {
 public:
  /// Rank 1 of 3. The five numbers that say where a rank is all differ, as no real store's do, so
  /// that none of them passes for another.
  RecordingStore();

  tutti::Pending submit(const tutti::MethodCall& call) override;
  /// A recv comes from rank 2.
  tutti::Pending pass(const tutti::PeerRequest& request) override;
  void configure(const tutti::SettingCall& setting) override;
  void close() override { hear("close"); }
  void barrier() override { hear("barrier"); }
  int join() override;
  tutti::Tensor allocate(const tutti::Shape& shape, tutti::DType dtype) override;
  /// The fields are 1, 2, 3, ...
  tutti::Counters counters() const override;
  int num_dead_node() const override { return 4; }
  std::vector<tutti::Choice> choices() const override;

  /// Gives the tensors at this place this name in the recorded calls. Other tensors are recorded by
  /// their dtype, shape and device.
  void name(const void* place, const std::string& name) { names_[place] = name; }
  /// Returns the calls that the store heard since the last `take_heard`, in order.
  std::string take_heard();
  /// Calls this in each recorded call, and adds its text to the record.
  void add_to_each(std::function<std::string()> text) { added_ = std::move(text); }
  /// The next call throws this.
  void fail_next(const tutti::Error& error) { next_failure_ = error; }
  /// The outcome of the next calls; until this is called, their calls are done at once.
  void answer_by(std::shared_ptr<tutti::base::Completion> completion) {
    outcome_ = std::move(completion);
  }

 private:
  void hear(const std::string& what);
  std::string describe(const tutti::Tensor& tensor) const;
  std::string describe(std::span<const tutti::Values> lists) const;
  tutti::Pending outcome() const;

  std::map<const void*, std::string> names_;
  std::string heard_;
  std::function<std::string()> added_;
  std::optional<tutti::Error> next_failure_;
  std::shared_ptr<tutti::base::Completion> outcome_;
};

/// Remembers the stream that it was given.
struct RecordingOrder : tutti::base::StreamOrder {
  void check(tutti::DeviceStream /*stream*/) const override {}
  void hold_back(tutti::DeviceStream stream) const override { held = stream.handle(); }
  mutable CUstream_st* held = nullptr;
};
