#include <optional>

#include "benchmarks/allreduce/contestant.h"
#include "benchmarks/allreduce/gpu_buffers.h"
#include "tutti/version.h"

namespace tutti::bench {
namespace {

class TuttiContestant : public Contestant {
 public:
  TuttiContestant(std::string impl, std::shared_ptr<KVStore> store, const Settings& settings,
                  bool shared)
      : impl_(std::move(impl)),
        store_(std::move(store)),
        settings_(settings),
        shared_(shared),
        key_(shared ? 1'000'000 : 0) {
    if (settings.gpu && !shared) gpu_ = std::make_unique<cuda::Gpu>(*settings.gpu);
  }

  std::string impl() const override { return impl_; }
  std::string version() const override { return tutti::version(); }
  bool shared() const override { return shared_; }

  Buffers prepare(const Buffers& own) override {
    // A key for each size: a store may remember a key's shape.
    key_ = Key(key_.integer() + 1);
    const Shape in_shape{static_cast<std::int64_t>(own.in_count)};
    const Shape out_shape{static_cast<std::int64_t>(own.out_count)};
    const bool one_buffer = own.in == own.out;
    if (shared_) {
      // Frees the last size's memory before allocating the next.
      in_ = out_ = Values();
      const Tensor in = store_->allocate(in_shape, settings_.dtype);
      in_ = in;
      out_ = one_buffer ? in : store_->allocate(out_shape, settings_.dtype);
    } else if (gpu_) {
      buffers_.reset();
      buffers_.emplace(*gpu_, own, settings_.dtype);
      in_ = Tensor(buffers_->in(), in_shape, settings_.dtype, buffers_->device());
      out_ = Tensor(buffers_->out(), out_shape, settings_.dtype, buffers_->device());
      return own;
    } else {
      in_ = Tensor(own.in, in_shape, settings_.dtype);
      out_ = Tensor(own.out, out_shape, settings_.dtype);
    }
    return {in_[0].data(), out_[0].data(), own.in_count, own.out_count};
  }

  void take_input() override {
    if (buffers_) buffers_->take_input();
  }
  void run() override {
    if (settings_.op == Operation::allreduce) {
      store_->allreduce(key_, in_, out_);
    } else {
      submit().wait();
    }
  }
  void give_result() override {
    if (buffers_) buffers_->give_result();
  }

 private:
  Pending submit() {
    switch (settings_.op) {
      case Operation::broadcast:
        return store_->broadcast(key_, out_, settings_.root);
      case Operation::reduce_scatter:
        return store_->reduce_scatter(key_, in_, out_);
      case Operation::allgather:
      case Operation::allreduce:
        break;
    }
    return store_->allgather(key_, in_, out_);
  }

  const std::string impl_;
  const std::shared_ptr<KVStore> store_;
  const Settings& settings_;
  const bool shared_;
  Key key_;
  std::unique_ptr<cuda::Gpu> gpu_;
  std::optional<GpuBuffers> buffers_;
  Values in_;
  Values out_;
};

}  // namespace

std::unique_ptr<Contestant> make_tutti(std::string impl, std::shared_ptr<KVStore> store,
                                       const Settings& settings, bool shared) {
  return std::make_unique<TuttiContestant>(std::move(impl), std::move(store), settings, shared);
}

}  // namespace tutti::bench
