// A server writes its state, and reads it again.
#include "ps/server/image.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <random>

#include "ps/durable/state_folder.h"
#include "ps/protocol/wire.h"
#include "unit/errors.h"
#include "unit/folder.h"
#include "unit/ps/server/keeper.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

StateHead of_two_workers(bool asynchronous = false) {
  return {.job = 7, .rank = 0, .servers = 1, .workers = 2, .asynchronous = asynchronous};
}

void init(Keeper& keeper, const Floats& values) {
  for (int worker : {0, 1}) keeper.say(worker, Kind::init, values);
  for (int worker : {0, 1}) keeper.receive(worker, SetOptimizer{.optimizer = momentum});
}

const Failure too_late_for_0{ErrorCode::timeout, "it was given up", {1}};

/// Recalls a request of worker 0.
void recall(Keeper& keeper, std::uint64_t request, Recall::Step step) {
  const bool gives_up = step == Recall::Step::give_up;
  keeper.receive(0, Recall{.request = request,
                           .piece = PieceName{"w", 0, 1},
                           .step = step,
                           .failure = gives_up ? std::optional(too_late_for_0) : std::nullopt});
}

Floats pulled(Keeper& keeper, std::int64_t count, int worker = 0) {
  keeper.heard.clear();
  keeper.receive(worker, Pull{.piece = {"w", 0, 1}, .shape = {count}});
  REQUIRE(keeper.heard.size() == 1);
  return keeper.heard[0];
}

/// The files as they are if the process is killed now. Another process wrote everything.
std::string copied(const Folder& from, const Folder& to) {
  std::filesystem::copy(from.path(), to.path(), std::filesystem::copy_options::recursive);
  return to.path();
}

}  // namespace

TEST_CASE("a server that is killed between any two requests goes on as if it had not been") {
  // Pushes of two workers, in turn: values, momentum and waiting contributions all count. Of some
  // worker 0's time is up, and worker 1 hears of it later.
  constexpr int requests = 14;
  const auto speak = [](Keeper& keeper, int i) {
    const std::uint64_t before = keeper.image().table->received(0);
    switch (i) {
      case 5:
        return recall(keeper, before, Recall::Step::hold);
      case 6:
        return recall(keeper, before - 1, Recall::Step::give_up);
      case 10:
        return recall(keeper, before, Recall::Step::hold);
      case 12:
        return recall(keeper, before - 1, Recall::Step::release);
      default:
        keeper.say(i == 4 || i == 8 || i == 9 ? 0 : i % 2, Kind::push, {static_cast<float>(i), 1});
    }
  };
  const Folder whole_folder;
  Keeper whole(whole_folder.path(), of_two_workers());
  init(whole, {0, 0});
  for (int i = 0; i < requests; ++i) speak(whole, i);
  CHECK(std::ranges::count(whole.failures, too_late_for_0) == 2);
  const net::Bytes expected = whole.state();
  for (int killed_after = 0; killed_after < requests; ++killed_after) {
    const Folder folder;
    const Folder copy;
    Keeper first(folder.path(), of_two_workers());
    init(first, {0, 0});
    for (int i = 0; i <= killed_after; ++i) speak(first, i);
    Keeper second(copied(folder, copy), of_two_workers(), true);
    second.continue_numbers(first);
    for (int i = killed_after + 1; i < requests; ++i) speak(second, i);
    CHECK(second.state() == expected);
  }
}

TEST_CASE("answers that were on their way when the server was killed are given again") {
  const Folder folder;
  const Folder copy;
  Keeper first(folder.path(), of_two_workers());
  init(first, {1, 2});
  CHECK(first.image().deliveries[1].save().kept.size() == 2);
  Keeper second(copied(folder, copy), of_two_workers(), true);
  CHECK(second.image().deliveries[1].save().kept == first.image().deliveries[1].save().kept);
  CHECK(second.heard.empty());
}

TEST_CASE("a worker that was lost stays lost") {
  const Folder folder;
  const Folder copy;
  Keeper first(folder.path(), of_two_workers());
  init(first, {1});
  first.lose(1);
  Keeper second(copied(folder, copy), of_two_workers(), true);
  second.continue_numbers(first);
  second.say(0, Kind::push, {1});
  REQUIRE(second.failures.size() == 1);
  CHECK(second.failures[0].code == ErrorCode::peer_lost);
}

TEST_CASE(
    "a request that a server has refused before it was killed does not keep it from going on") {
  const Folder folder;
  const Folder copy;
  Keeper first(folder.path(), of_two_workers());
  init(first, {1});
  const net::Bytes no_state(7);
  first.receive(0, SetState{.piece = {"w", 0, 1}, .data = no_state});
  REQUIRE(first.failures.size() == 1);
  CHECK_THAT(first.failures[0].text, Contains("reads no more of worker 0"));
  Keeper second(copied(folder, copy), of_two_workers(), true);
  second.continue_numbers(first);
  CHECK(second.state() == first.state());
  CHECK(pulled(second, 1, 1) == Floats{1});
}

TEST_CASE("asynchronous settings and pushes are kept, too") {
  const Folder folder;
  const Folder copy;
  Keeper first(folder.path(), of_two_workers(true));
  for (int worker : {0, 1}) first.say(worker, Kind::init, {0});
  first.receive(0, SetOptimizer{.optimizer = momentum});
  first.say(0, Kind::push, {1});
  Keeper second(copied(folder, copy), of_two_workers(true), true);
  second.continue_numbers(first);
  // Worker 1 makes the setting that worker 0's process made before, and agrees.
  second.receive(1, SetOptimizer{.optimizer = momentum});
  second.say(1, Kind::push, {1});
  CHECK(second.failures.empty());
  CHECK(pulled(second, 1) == Floats{-2.5});
}

TEST_CASE("a checkpoint of the middle of everything is read as it was written") {
  const Folder folder;
  Keeper keeper(folder.path(), of_two_workers());
  init(keeper, {1, 2});
  keeper.say(0, Kind::push, {2, 2});
  recall(keeper, keeper.image().table->received(0), Recall::Step::give_up);
  keeper.say(0, Kind::push, {1, 1});
  recall(keeper, keeper.image().table->received(0), Recall::Step::hold);
  keeper.receive(0, Pull{.piece = {"w", 0, 1}, .shape = {2}, .rows = std::vector<std::int64_t>{1}});
  keeper.receive(0, SetCompression{.compression = {Encoding::two_bits, 0.5}});
  keeper.begin(7, keeper.state());
  const Image again = Image::read(StateFiles(state_folder(folder.path()), 0, 1));
  std::vector<const Delivery*> deliveries;
  for (const Delivery& delivery : again.deliveries) deliveries.push_back(&delivery);
  CHECK(image_bytes(again.head, *again.table, deliveries) == keeper.state());
}

TEST_CASE("checkpoints with any byte changed or cut are refused, and never crash") {
  const Folder folder;
  Keeper keeper(folder.path(), of_two_workers());
  init(keeper, {1, 2});
  const net::Bytes state = keeper.state();
  std::minstd_rand random(1);
  for (int i = 0; i < 200; ++i) {
    net::Bytes changed = state;
    changed[random() % changed.size()] = static_cast<std::byte>(random());
    if (i % 3 == 0) changed.resize(random() % changed.size());
    // Sealed again, as if somebody had meant it.
    keeper.begin(7, changed);
    try {
      Image::read(StateFiles(state_folder(folder.path()), 0, 1));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
    }
  }
}

TEST_CASE("a checkpoint of one job and a journal of another are not taken for one state") {
  const Folder folder;
  const Folder other;
  { const Keeper keeper(folder.path(), {.job = 7}); }
  { const Keeper keeper(other.path(), {.job = 8}); }
  const std::string name = "/server-0-of-1.journal-1";
  std::filesystem::copy(other.path() + name, folder.path() + name,
                        std::filesystem::copy_options::overwrite_existing);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { Image::read(StateFiles(state_folder(folder.path()), 0, 1)); }),
             Contains("journal-1: it is of another job"));
}

TEST_CASE("the state of one server under the name of another is refused") {
  const Folder folder;
  { const Keeper keeper(folder.path(), {.job = 7, .rank = 1, .servers = 2, .workers = 1}); }
  const std::string path = folder.path() + "/server-";
  std::filesystem::rename(path + "1-of-2.checkpoint-1", path + "0-of-2.checkpoint-1");
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { Image::read(StateFiles(state_folder(folder.path()), 0, 2)); }),
             Contains("the file has the state of server 1 of 2, but its name says server 0 of 2"));
}

TEST_CASE("a value of the earlier job stays when the next job initialises it for the first time") {
  Table former({.workers = 1, .send = [](int, const Answer&) {}});
  Floats values{1, 2};
  Contribution init{.sequence = 1, .piece = {"w", 0, 1}, .kind = Kind::init, .shape = {2}};
  init.data = std::as_bytes(std::span(values));
  former.receive(0, init);
  std::vector<std::optional<Failure>> heard;
  Table next(
      {.workers = 1, .send = [&](int, const Answer& answer) { heard.push_back(answer.failure); }});
  next.inherit(former.optimizer(), former.contents());
  Floats others{8, 9};
  init.data = std::as_bytes(std::span(others));
  next.receive(0, init);
  CHECK_FALSE(heard.at(0));
  CHECK(next.contents().at(0).content.elements.as<float>()[0] == 1);
  init.sequence = 2;
  next.receive(0, init);
  REQUIRE(heard.at(1));
  CHECK_THAT(heard[1]->text, Contains("initialised already"));
}

TEST_CASE("a value of the earlier job that a broadcast has replaced counts as initialised") {
  Table former({.workers = 1, .send = [](int, const Answer&) {}});
  Floats values{1, 2};
  Contribution said{.sequence = 1, .piece = {"w", 0, 1}, .kind = Kind::init, .shape = {2}};
  said.data = std::as_bytes(std::span(values));
  former.receive(0, said);
  std::vector<std::optional<Failure>> heard;
  Table next(
      {.workers = 1, .send = [&](int, const Answer& answer) { heard.push_back(answer.failure); }});
  next.inherit(former.optimizer(), former.contents());
  said.kind = Kind::broadcast;
  next.receive(0, said);
  CHECK_FALSE(heard.at(0));
  said.kind = Kind::init;
  said.sequence = 2;
  next.receive(0, said);
  REQUIRE(heard.at(1));
  CHECK_THAT(heard[1]->text, Contains("initialised already"));
}

TEST_CASE("a value that is larger than any memory is refused, though it brings as many bytes") {
  ArchiveWriter to;
  to.put(std::uint64_t{1});
  to.put_enum(DType::f64);
  to.put(Shape{std::int64_t{1} << 61});
  to.put(net::ConstBytes());
  const net::Bytes bytes = to.take();
  ArchiveReader from(bytes);
  const Rules rules;
  Value value({"w", 0, 1}, rules);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { value.load(from); }),
             Contains("another size than its shape says"));
}

TEST_CASE("a key and pieces that no message may have are refused in a state, too") {
  for (const PieceName& name : {PieceName{std::string(Key::max_bytes + 1, 'k'), 0, 1},
                                PieceName{"w", 0, most_pieces + 1}}) {
    ArchiveWriter to;
    to.put(name);
    const net::Bytes bytes = to.take();
    text_of(ErrorCode::invalid_argument, [&] { ArchiveReader(bytes).piece_name(); });
  }
}

TEST_CASE("a journal whose record of a loss says something else is refused") {
  const Folder folder;
  Keeper keeper(folder.path(), {.job = 7});
  const net::Bytes end = encode(FromScheduler(End{}));
  const JournalRecord event{.worker = 0, .is_loss = true, .message = end};
  keeper.storage().append(event.head(), event.message);
  keeper.storage().commit();
  const StateFiles files(state_folder(folder.path()), 0, 1);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Image::read(files); }),
             Contains("a loss that is none"));
}
