#include <algorithm>
#include <optional>
#include <vector>

#include "benchmarks/allreduce/contestant.h"
#include "benchmarks/allreduce/gpu_buffers.h"
#include "tutti/version.h"

namespace tutti::bench {
namespace {

Shape shape_of(std::size_t count) {
  return {static_cast<std::int64_t>(count)};
}

class TuttiContestant : public Contestant {
 public:
  TuttiContestant(std::string impl, std::shared_ptr<KVStore> store, const Settings& settings,
                  Measured measured)
      : impl_(std::move(impl)),
        store_(std::move(store)),
        settings_(settings),
        shared_(measured == Measured::shared),
        binds_(measured == Measured::persistent),
        key_(static_cast<int>(measured) * 1'000'000) {
    if (settings.gpu && !shared_) gpu_ = std::make_unique<cuda::Gpu>(*settings.gpu);
  }

  std::string impl() const override { return impl_; }
  std::string version() const override { return tutti::version(); }
  bool shared() const override { return shared_; }

  Buffers prepare(const Case& now, const Buffers& own) override {
    case_ = now;
    call_.op = now.redop;
    // A key for each size and case: a store may remember a key's shape.
    key_ = Key(key_.integer() + 1);
    const auto ranks = static_cast<std::size_t>(store_->num_workers());
    if (now.op == Operation::all_to_all) shares_.assign(ranks * ranks, own.in_count / ranks);
    if (shared_) return allocate(own);
    if (gpu_) {
      buffers_.reset();
      buffers_.emplace(*gpu_, own, settings_.dtype, now.in_place);
      take(buffers_->in(), buffers_->out(), own, buffers_->device());
    } else {
      take(own.in, own.out, own, {});
    }
    if (binds_) bound_.emplace(store_->bind(key_, in_, out_, call_));
    return own;
  }

  void take_input() override {
    if (buffers_) buffers_->take_input();
  }
  void run() override {
    if (binds_) {
      bound_->run();
    } else if (case_.op == Operation::allreduce) {
      store_->allreduce(key_, in_, out_, call_);
    } else if (case_.op == Operation::sendrecv) {
      exchange_with_neighbours();
    } else {
      submit().wait();
    }
  }
  void give_result() override {
    if (buffers_) buffers_->give_result();
  }

 private:
  /// The tensors over this memory.
  void take(void* in, void* out, const Buffers& sizes, Device device) {
    in_ = Tensor(in, shape_of(sizes.in_count), settings_.dtype, device);
    out_ = Tensor(out, shape_of(sizes.out_count), settings_.dtype, device);
  }

  /// In node-shared memory, laid out as `own` is.
  Buffers allocate(const Buffers& own) {
    // Frees the last size's memory before allocating the next.
    in_ = out_ = Values();
    const DType dtype = settings_.dtype;
    if (case_.in_place) {
      const std::shared_ptr<void> whole =
          store_->allocate(shape_of(std::max(own.in_count, own.out_count)), dtype).owner();
      const auto* const begin = static_cast<const std::byte*>(std::min(own.in, own.out));
      const auto part = [&](void* at, std::size_t count) {
        const auto offset = static_cast<const std::byte*>(at) - begin;
        return Tensor(std::shared_ptr<void>(whole, static_cast<std::byte*>(whole.get()) + offset),
                      shape_of(count), dtype);
      };
      in_ = part(own.in, own.in_count);
      out_ = part(own.out, own.out_count);
    } else {
      in_ = store_->allocate(shape_of(own.in_count), dtype);
      out_ = store_->allocate(shape_of(own.out_count), dtype);
    }
    return {in_[0].data(), out_[0].data(), own.in_count, own.out_count};
  }

  Pending submit() {
    switch (case_.op) {
      case Operation::broadcast:
        return store_->broadcast(key_, out_, settings_.root);
      case Operation::reduce_scatter:
        return store_->reduce_scatter(key_, in_, out_, call_);
      case Operation::all_to_all:
        return store_->all_to_all(key_, in_[0], out_[0], shares_);
      default:
        return store_->allgather(key_, in_, out_);
    }
  }

  void exchange_with_neighbours() {
    const int ranks = store_->num_workers();
    const Pending received = store_->recv(out_[0], (store_->rank() + ranks - 1) % ranks);
    const Pending sent = store_->send(in_[0], (store_->rank() + 1) % ranks);
    received.wait();
    sent.wait();
  }

  const std::string impl_;
  const std::shared_ptr<KVStore> store_;
  const Settings& settings_;
  const bool shared_;
  const bool binds_;
  Key key_;
  Case case_;
  CallOptions call_;
  std::vector<std::size_t> shares_;  ///< of an all_to_all
  std::unique_ptr<cuda::Gpu> gpu_;
  std::optional<GpuBuffers> buffers_;
  Values in_;
  Values out_;
  std::optional<Bound> bound_;
};

}  // namespace

std::unique_ptr<Contestant> make_tutti(std::string impl, std::shared_ptr<KVStore> store,
                                       const Settings& settings, Measured measured) {
  return std::make_unique<TuttiContestant>(std::move(impl), std::move(store), settings, measured);
}

}  // namespace tutti::bench
