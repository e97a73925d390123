// For the tests of the state that a server keeps.
#pragma once
#include <poll.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "ps/durable/storage.h"
#include "ps/protocol/wire.h"
#include "ps/server/image.h"

namespace tutti::ps {

using Floats = std::vector<float>;

inline const Optimizer momentum{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}};

/// A server without connections that keeps its state.
class Keeper {
 public:
  Keeper(const std::string& folder, StateHead head, bool goes_on = false)
      : storage_({.folder = folder, .when = Durability::When::each}, head.rank, head.servers),
        image_(goes_on ? Image::read(storage_.files()) : Image(head)),
        sequences_(static_cast<std::size_t>(head.workers)) {
    *image_.send = [this](int worker, const Answer& answer) { answer_to(worker, answer); };
    begin(head.job, state());
  }

  /// Writes this as its state. When this returns it is on the disk.
  void begin(std::uint64_t job, const net::Bytes& state) {
    const base::Fd writer = storage_.prepare([&] { return state; });
    pollfd end{writer.get(), POLLIN, 0};
    REQUIRE(::poll(&end, 1, 30'000) == 1);  // milliseconds
    REQUIRE(storage_.has_prepared());
    storage_.begin(job);
  }
  net::Bytes state() const {
    std::vector<const Delivery*> deliveries;
    for (const Delivery& delivery : image_.deliveries) deliveries.push_back(&delivery);
    return image_bytes(image_.head, *image_.table, deliveries);
  }
  template <typename Request>
  void receive(int worker, Request request) {
    const auto at = static_cast<std::size_t>(worker);
    request.sequence = ++sequences_[at];
    Delivery& delivery = image_.deliveries[at];
    const net::Bytes message = encode(ToServer(request));
    delivery.replay(delivery.acknowledged());
    const JournalRecord event{
        .worker = worker, .acknowledged = delivery.acknowledged(), .message = message};
    storage_.append(event.head(), event.message);
    image_.table->receive(worker, decode_to_server(message));
    storage_.commit();
  }
  void say(int worker, Kind kind, const Floats& values, const PieceName& piece = {"w", 0, 1},
           std::int64_t whole = 0) {
    Contribution said{.piece = piece, .kind = kind};
    said.shape = {whole == 0 ? static_cast<std::int64_t>(values.size()) : whole};
    if (brings_data(said, worker)) said.data = std::as_bytes(std::span(values));
    receive(worker, said);
  }
  void lose(int worker) {
    const Lost lost{Role::worker, worker, "it was killed"};
    const net::Bytes message = message_of(lost);
    const JournalRecord event{.worker = worker, .is_loss = true, .message = message};
    storage_.append(event.head(), event.message);
    storage_.commit();
  }
  Image& image() { return image_; }
  Storage& storage() { return storage_; }
  void continue_numbers(const Keeper& former) { sequences_ = former.sequences_; }

  std::vector<Floats> heard;
  std::vector<Failure> failures;

 private:
  void answer_to(int worker, const Answer& answer) {
    image_.deliveries[static_cast<std::size_t>(worker)].send(
        encode(answer), {}, [](net::ConstBytes, net::ConstBytes) {});
    if (answer.failure) failures.push_back(*answer.failure);
    Floats values(answer.data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), answer.data.data(), answer.data.size());
    heard.push_back(std::move(values));
  }

  Storage storage_;
  Image image_;
  std::vector<std::uint64_t> sequences_;
};

}  // namespace tutti::ps
