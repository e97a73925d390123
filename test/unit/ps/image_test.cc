// What a server writes of its state, and what it makes of that again.
#include "ps/image.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <random>

#include "ps/stock.h"
#include "ps/storage.h"
#include "ps/wire.h"
#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;
using Floats = std::vector<float>;

namespace {

const Optimizer momentum{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}};

Durability in(const std::string& folder) {
  return {.folder = folder, .when = Durability::When::each};
}

/// When this returns the state is on the disk.
void begin(Storage& storage, std::uint64_t job, const net::Bytes& state) {
  const base::Fd writer = storage.prepare([&] { return state; });
  pollfd end{writer.get(), POLLIN, 0};
  REQUIRE(::poll(&end, 1, -1) == 1);
  REQUIRE(storage.has_prepared());
  storage.begin(job);
}

/// A server without connections that keeps its state.
class Keeper {
 public:
  Keeper(const std::string& folder, StateHead head, bool goes_on = false)
      : storage_(in(folder), head.rank, head.servers),
        image_(goes_on ? Image::read(storage_.files()) : Image(head)),
        sequences_(static_cast<std::size_t>(head.workers)) {
    *image_.send = [this](int worker, const Answer& answer) { answer_to(worker, answer); };
    begin(storage_, head.job, state());
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
    const Event event{
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
    const Event event{.worker = worker, .is_loss = true, .message = message};
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

StateHead of_two_workers(bool asynchronous = false) {
  return {.job = 7, .rank = 0, .servers = 1, .workers = 2, .asynchronous = asynchronous};
}

void init(Keeper& keeper, const Floats& values) {
  for (int worker : {0, 1}) keeper.say(worker, Kind::init, values);
  for (int worker : {0, 1}) keeper.receive(worker, SetOptimizer{.optimizer = momentum});
}

Floats pulled(Keeper& keeper, std::int64_t count, int worker = 0) {
  keeper.heard.clear();
  keeper.receive(worker, Pull{.piece = {"w", 0, 1}, .shape = {count}});
  REQUIRE(keeper.heard.size() == 1);
  return keeper.heard[0];
}

/// As the files are when the process is killed now: everything, by another process.
std::string copied(const Folder& from, const Folder& to) {
  std::filesystem::copy(from.path(), to.path(), std::filesystem::copy_options::recursive);
  return to.path();
}

}  // namespace

TEST_CASE("a server that is killed between any two requests goes on as if it had not been") {
  // Pushes of two workers, in turn: values, momentum and waiting contributions all count.
  const auto speak = [](Keeper& keeper, int i) {
    keeper.say(i % 2, Kind::push, {static_cast<float>(i), 1});
  };
  const Folder whole_folder;
  Keeper whole(whole_folder.path(), of_two_workers());
  init(whole, {0, 0});
  for (int i = 0; i < 9; ++i) speak(whole, i);
  const net::Bytes expected = whole.state();
  for (int killed_after = 0; killed_after < 9; ++killed_after) {
    const Folder folder;
    const Folder copy;
    Keeper first(folder.path(), of_two_workers());
    init(first, {0, 0});
    for (int i = 0; i <= killed_after; ++i) speak(first, i);
    Keeper second(copied(folder, copy), of_two_workers(), true);
    second.continue_numbers(first);
    for (int i = killed_after + 1; i < 9; ++i) speak(second, i);
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

TEST_CASE("what a server has refused before it was killed does not keep it from going on") {
  const Folder folder;
  const Folder copy;
  Keeper first(folder.path(), of_two_workers());
  init(first, {1});
  const net::Bytes no_state(7);
  first.receive(0, SetState{.piece = {"w", 0, 1}, .data = no_state});
  REQUIRE(first.failures.size() == 1);
  CHECK_THAT(first.failures[0].text, Contains("worker 0 is heard no more"));
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
  keeper.say(0, Kind::push, {1, 1});
  keeper.receive(0, Pull{.piece = {"w", 0, 1}, .shape = {2}, .rows = std::vector<std::int64_t>{1}});
  keeper.receive(0, SetCompression{.compression = {Encoding::two_bits, 0.5}});
  begin(keeper.storage(), 7, keeper.state());
  const Image again = Image::read(StateFiles(folder.path(), 0, 1));
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
    begin(keeper.storage(), 7, changed);
    try {
      Image::read(StateFiles(folder.path(), 0, 1));
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
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { Image::read(StateFiles(folder.path(), 0, 1)); }),
      Contains("journal-1: it is of another job"));
}

TEST_CASE("the state of one server under the name of another is refused") {
  const Folder folder;
  { const Keeper keeper(folder.path(), {.job = 7, .rank = 1, .servers = 2, .workers = 1}); }
  const std::string path = folder.path() + "/server-";
  std::filesystem::rename(path + "1-of-2.checkpoint-1", path + "0-of-2.checkpoint-1");
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { Image::read(StateFiles(folder.path(), 0, 2)); }),
      Contains("it is that of server 1 of 2, and its name says server 0 of 2"));
}

TEST_CASE("values and optimizer states are spread over another number of servers") {
  const Folder folder;
  const Floats all{0, 1, 2, 3, 4, 5, 6};
  for (int rank = 0; rank < 2; ++rank) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const Shard mine = shard(7, rank, 2);
    const PieceName piece{"w", static_cast<std::uint32_t>(rank), 2};
    const auto part = [&](const Floats& whole) {
      return Floats(whole.begin() + static_cast<std::ptrdiff_t>(mine.begin),
                    whole.begin() + static_cast<std::ptrdiff_t>(mine.end));
    };
    keeper.say(0, Kind::init, part(all), piece, 7);
    keeper.receive(0, SetOptimizer{.optimizer = momentum});
    keeper.say(0, Kind::push, part(all), piece, 7);
  }
  const Stock stock = Stock::read(folder.path());
  CHECK(stock.optimizer() == momentum);
  REQUIRE(stock.question().values.size() == 1);
  CHECK(stock.question().values[0].count == 7);
  const Located located{{{"w", {{1, 0, 1}, 3}}}};
  std::size_t elements = 0;
  for (int server : {0, 1}) {
    for (const Table::Content& one : stock.pieces_on(server, located)) {
      const Shard part = shard(7, static_cast<int>(one.name.index), 3);
      REQUIRE(one.content.elements.count() == part.count());
      REQUIRE(one.content.state);
      Floats velocity(part.count());
      std::memcpy(velocity.data(), one.content.state->slots.at(0).data(), part.count() * 4);
      for (std::size_t i = 0; i < part.count(); ++i) {
        CHECK(one.content.elements.as<float>()[i] == 0);
        CHECK(velocity[i] == -all[part.begin + i]);
      }
      elements += part.count();
    }
  }
  CHECK(elements == 7);
}

TEST_CASE("what is no answer to where restored values are to be is refused") {
  const Folder folder;
  {
    Keeper keeper(folder.path(), {.job = 7, .rank = 0, .servers = 1, .workers = 1});
    keeper.say(0, Kind::init, {1, 2});
  }
  const Stock stock = Stock::read(folder.path());
  const Placement fine{"w", {{0, 1}, 4}};
  CHECK(stock.pieces_on(0, Located{{fine}}).size() == 2);
  const Located wrong[] = {{}, {{fine, fine}}, {{{"v", {{0}, 1}}}}, {{{"w", {{0, 1}, 5}}}}};
  for (const Located& answer : wrong) {
    text_of(ErrorCode::internal, [&] { stock.pieces_on(0, answer); });
  }
}

TEST_CASE("a piece that had not been updated yet is restored with what the optimizer begins with") {
  const Folder folder;
  for (const int rank : {0, 1}) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const PieceName piece{"w", static_cast<std::uint32_t>(rank), 2};
    keeper.say(0, Kind::init, {1, 2}, piece, 4);
    keeper.receive(0, SetOptimizer{.optimizer = momentum});
    if (rank == 0) keeper.say(0, Kind::push, {1, 2}, piece, 4);
  }
  const Located located{{{"w", {{0}, 1}}}};
  const auto pieces = Stock::read(folder.path()).pieces_on(0, located);
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].content.elements.as<float>()[0] == 0);
  CHECK(pieces[0].content.elements.as<float>()[3] == 2);
  REQUIRE(pieces[0].content.state);
  Floats velocity(4);
  REQUIRE(pieces[0].content.state->slots.at(0).size() == 16);
  std::memcpy(velocity.data(), pieces[0].content.state->slots[0].data(), 16);
  CHECK(velocity == Floats{-1, -2, 0, 0});
}

TEST_CASE("a key of which servers have some pieces alone is not restored, and all others are") {
  const Folder folder;
  for (const int rank : {0, 1}) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const auto index = static_cast<std::uint32_t>(rank);
    keeper.say(0, Kind::init, {1, 2}, {"v", index, 2}, 4);
    if (rank == 0) keeper.say(0, Kind::init, {1, 2}, {"w", index, 2}, 4);
  }
  const Stock stock = Stock::read(folder.path());
  REQUIRE(stock.question().values.size() == 1);
  CHECK(stock.question().values[0].key == Key("v"));
}

TEST_CASE("a state of which a server's part is missing is not restored") {
  const Folder folder;
  { const Keeper keeper(folder.path(), {.job = 7, .rank = 1, .servers = 2, .workers = 1}); }
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Stock::read(folder.path()); }),
             Contains("that of server 0 of 2 is missing"));
  { const Keeper keeper(folder.path(), {.job = 8, .rank = 0, .servers = 2, .workers = 1}); }
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Stock::read(folder.path()); }),
             Contains("of another job"));
}

TEST_CASE("a value of the job before stays when the next one initialises it, once") {
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

TEST_CASE("a value of the job before that a broadcast has replaced is initialised already") {
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
  const Event event{.worker = 0, .is_loss = true, .message = end};
  keeper.storage().append(event.head(), event.message);
  keeper.storage().commit();
  const StateFiles files(folder.path(), 0, 1);
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Image::read(files); }),
             Contains("a loss that is none"));
}
