// send and recv, which concern two ranks; run under mpirun with any number of ranks.
#include <algorithm>
#include <deque>
#include <future>
#include <numeric>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

namespace {

int next_to(const KVStore& store) {
  return (store.rank() + 1) % store.num_workers();
}

int before(const KVStore& store) {
  return (store.rank() + store.num_workers() - 1) % store.num_workers();
}

/// Bytes that differ by sender, number and place.
std::byte byte_of(int rank, std::size_t number, std::size_t at) {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(rank) * 7919 + number * 104729 + at) * 0x9e3779b97f4a7c15U;
  return static_cast<std::byte>(mixed >> 40);
}

/// A tensor of bytes with memory of its own.
struct Bytes {
  explicit Bytes(std::size_t count) : memory(count + 1) {}

  void fill(int rank, std::size_t number) {
    for (std::size_t i = 0; i + 1 < memory.size(); ++i) memory[i] = byte_of(rank, number, i);
  }
  bool are_from(int rank, std::size_t number) const {
    for (std::size_t i = 0; i + 1 < memory.size(); ++i) {
      if (memory[i] != byte_of(rank, number, i)) return false;
    }
    return true;
  }
  Tensor tensor() {
    return {memory.data(), {static_cast<std::int64_t>(memory.size() - 1)}, DType::u8};
  }

  std::vector<std::byte> memory;
};

Options hasty() {
  Options options = Options::from_env();
  options.key_timeout = std::chrono::seconds(1);
  return options;
}

}  // namespace

TEST_CASE("each rank passes a tensor on to the next one in a ring") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  for (const std::size_t count : {1U, 1000U, 70'000U, 3'000'000U}) {
    INFO(count << " bytes");
    Bytes mine(count);
    Bytes theirs(count);
    mine.fill(store->rank(), count);
    const Pending sent = store->send(mine.tensor(), next_to(*store));
    const Pending received = store->recv(theirs.tensor(), before(*store));
    received.wait();
    sent.wait();
    CHECK(theirs.are_from(before(*store), count));
    CHECK(mine.are_from(store->rank(), count));
  }
}

TEST_CASE("elements of any dtype travel unchanged, and so does a tensor without any") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8,
                            DType::i32, DType::i64}) {
    INFO(name(dtype));
    // All bit patterns, not numbers among them.
    Bytes mine(24 * size_of(dtype));
    Bytes theirs(24 * size_of(dtype));
    mine.fill(store->rank(), 1);
    const Tensor out(mine.memory.data(), {2, 3, 4}, dtype);
    const Tensor in(theirs.memory.data(), {24}, dtype);
    const Pending sent = store->send(out, next_to(*store), 4);
    store->recv(in, before(*store), 4).wait();
    sent.wait();
    CHECK(theirs.are_from(before(*store), 1));
  }
  const Tensor nothing(nullptr, {0, 5}, DType::f32);
  const Pending sent = store->send(nothing, next_to(*store));
  store->recv(nothing, before(*store)).wait();
  sent.wait();
}

TEST_CASE("sends with one tag are received in their order, whatever the order of other tags") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  constexpr std::size_t each = 20;
  constexpr int tags = 3;
  std::deque<Bytes> out;
  std::deque<Bytes> in;
  std::vector<Pending> pendings;
  for (int tag = 0; tag < tags; ++tag) {
    for (std::size_t i = 0; i < each; ++i) {
      out.emplace_back(100).fill(store->rank(), i + 1000 * static_cast<std::size_t>(tag));
      pendings.push_back(store->send(out.back().tensor(), next_to(*store), tag));
    }
  }
  for (int tag = tags; tag-- > 0;) {
    for (std::size_t i = 0; i < each; ++i) {
      in.emplace_back(100);
      pendings.push_back(store->recv(in.back().tensor(), before(*store), tag));
    }
  }
  for (const Pending& pending : pendings) pending.wait();
  auto received = in.begin();
  for (int tag = tags; tag-- > 0;) {
    for (std::size_t i = 0; i < each; ++i) {
      CHECK((received++)->are_from(before(*store), i + 1000 * static_cast<std::size_t>(tag)));
    }
  }
}

TEST_CASE("a recv from any rank says whose tensor it took") {
  const auto store = make_store();
  const int ranks = store->num_workers();
  if (ranks == 1) return;
  if (store->rank() > 0) {
    Bytes mine(500);
    mine.fill(store->rank(), 3);
    store->send(mine.tensor(), 0, 3).wait();
    return;
  }
  std::vector<int> sources;
  for (int i = 1; i < ranks; ++i) {
    Bytes theirs(500);
    int source = -1;
    store->recv(theirs.tensor(), any_rank, 3, &source).wait();
    CHECK(theirs.are_from(source, 3));
    sources.push_back(source);
  }
  std::sort(sources.begin(), sources.end());
  std::vector<int> others(static_cast<std::size_t>(ranks - 1));
  std::iota(others.begin(), others.end(), 1);
  CHECK(sources == others);
}

TEST_CASE(
    "two ranks that disagree about dtype or size both get a mismatch, and the store lives on") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  std::vector<double> data(6);
  const Tensor six(data.data(), {2, 3}, DType::f32);
  const Tensor four(data.data(), {4}, DType::f32);
  const Tensor wide(data.data(), {6}, DType::f64);
  for (const Tensor& other : {four, wide}) {
    if (store->rank() > 1) break;
    const Error error = error_of([&] {
      if (store->rank() == 0) return store->send(six, 1, 2).wait();
      store->recv(other, 0, 2).wait();
    });
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("6 elements of f32") && Contains("rank 0") &&
                                 Contains("rank 1") && Contains("tag 2"));
    CHECK_THAT(error.what(), Contains(std::to_string(other.count()) + " elements of " +
                                      std::string(name(other.dtype()))));
  }
  if (store->rank() == 0) store->send(six, 1, 2).wait();
  if (store->rank() == 1) store->recv(six, 0, 2).wait();
  check_alive(*store);
}

TEST_CASE("a send or recv that its peer does not answer ends in a timeout that names it") {
  const auto patient = make_store();
  const auto store = make_store(hasty());
  if (store->num_workers() == 1) return;
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {6}, DType::f32);
  if (store->rank() == 0) {
    const int last = store->num_workers() - 1;
    const Pending sent = store->send(tensor, last, 1);
    const Pending received = store->recv(tensor, last, 2);
    for (const Pending& pending : {sent, received}) {
      const Error error = error_of([&] { pending.wait(); });
      CHECK(error.code() == ErrorCode::timeout);
      CHECK(std::vector<int>(error.ranks().begin(), error.ranks().end()) == std::vector<int>{last});
      CHECK_THAT(error.what(), Contains("rank " + std::to_string(last) + " did not make"));
    }
  }
  patient->barrier();
  // Later calls do not meet those that were given up.
  if (store->rank() == 0) store->send(tensor, store->num_workers() - 1, 1).wait();
  if (store->rank() == store->num_workers() - 1) store->recv(tensor, 0, 1).wait();
  patient->barrier();
  check_alive(*store);
}

namespace {

/// One rank closes its store, while the others have called for it.
void close_meanwhile(KVStore& store, int closer) {
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {6}, DType::f32);
  if (store.rank() == closer) {
    const Pending own = store.send(tensor, next_to(store), 8);
    store.close();
    const Error error = error_of([&] { own.wait(); });
    CHECK(error.code() == ErrorCode::aborted);
    CHECK_THAT(error.what(), Contains("has closed this store"));
    CHECK(error_of([&] { store.send(tensor, next_to(store), 8).wait(); }).code() ==
          ErrorCode::aborted);
    return;
  }
  const Pending sent = store.send(tensor, closer, 1);
  const Pending received = store.recv(tensor, closer, 2);
  for (const Pending& pending : {sent, received}) {
    const Error error = error_of([&] { pending.wait(); });
    CHECK(error.code() == ErrorCode::aborted);
    CHECK_THAT(error.what(), Contains("rank " + std::to_string(closer) + " has left the store"));
  }
  // Ranks that are there can still pass tensors to each other.
  if (store.num_workers() < 3) return;
  const int first = closer == 0 ? 1 : 0;
  if (store.rank() == first) store.send(tensor, first + 1).wait();
  if (store.rank() == first + 1) store.recv(tensor, first).wait();
}

}  // namespace

TEST_CASE("calls between two ranks that have not met are aborted when one of them closes") {
  const int ranks = make_store()->num_workers();
  if (ranks == 1) return;
  // Rank 0 leaves last.
  for (const int closer : {ranks - 1, 0}) close_meanwhile(*make_store(), closer);
}

TEST_CASE("a rank that there is not, this rank itself and a negative tag are refused at the call") {
  const auto store = make_store();
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {2, 3}, DType::f32);
  const auto refused = [&](int rank, int tag, bool sends) {
    const Error error =
        error_of([&] { sends ? store->send(tensor, rank, tag) : store->recv(tensor, rank, tag); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    return std::string(error.what());
  };
  const int ranks = store->num_workers();
  for (const bool sends : {true, false}) {
    CHECK_THAT(refused(ranks, 0, sends), Contains("rank " + std::to_string(ranks)) &&
                                             Contains("0 to " + std::to_string(ranks - 1)));
    CHECK_THAT(refused(store->rank(), 0, sends), Contains("this rank itself"));
    if (ranks > 1) CHECK_THAT(refused(next_to(*store), -3, sends), Contains("tag -3"));
  }
  CHECK_THAT(refused(any_rank, 0, true), Contains("rank -1"));
  if (ranks == 1) CHECK_THAT(refused(any_rank, 0, false), Contains("no other rank"));
  check_alive(*store);
}

TEST_CASE("a rank may wait for a recv before it makes the collective call that its peer waits in") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  std::vector<float> data(1000);
  const Tensor a(data.data(), {500}, DType::f32);
  const Tensor b(data.data() + 500, {500}, DType::f32);
  float value = 0;
  const Tensor message(&value, {}, DType::f32);
  // So often that the steps are replayed; then the ranks deviate from what was recorded.
  for (int round = 0; round < 40; ++round) {
    const bool deviates = round % 8 == 7;
    const Pending second = store->pushpull("b", b, b);
    if (deviates && store->rank() == 0) {
      second.wait();
      value = static_cast<float>(round);
      store->send(message, 1).wait();
    }
    if (deviates && store->rank() == 1) {
      store->recv(message, 0).wait();
      CHECK(value == static_cast<float>(round));
    }
    store->pushpull("a", a, a).wait();
    second.wait();
  }
}

TEST_CASE("a callback may send and receive") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  Bytes mine(3000);
  Bytes theirs(3000);
  mine.fill(store->rank(), 1);
  std::promise<Pending> sent;
  std::promise<Pending> received;
  float value = 1;
  const Tensor sum(&value, {}, DType::f32);
  store->pushpull("sum", sum, sum).then([&](const std::exception_ptr& error) {
    CHECK_FALSE(error);
    sent.set_value(store->send(mine.tensor(), next_to(*store)));
    received.set_value(store->recv(theirs.tensor(), before(*store)));
  });
  sent.get_future().get().wait();
  received.get_future().get().wait();
  CHECK(theirs.are_from(before(*store), 1));
}

namespace {

/// All ranks agree on it: who sends how much to whom, and which tensors are summed.
struct Letter {
  int from = 0;
  int to = 0;
  int tag = 0;
  bool any = false;  ///< received from any rank, with a tag of its own
  std::size_t count = 0;
};

std::vector<Letter> random_letters(std::mt19937_64& random, int ranks, std::size_t letters) {
  std::vector<Letter> all(letters);
  for (std::size_t i = 0; i < letters; ++i) {
    Letter& letter = all[i];
    const auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<std::uint64_t>(below));
    };
    letter.from = draw(ranks);
    letter.to = (letter.from + 1 + draw(ranks - 1)) % ranks;
    letter.any = draw(4) == 0;
    letter.tag = letter.any ? 100 + static_cast<int>(i) : draw(3);
    constexpr std::size_t sizes[] = {0, 1, 100, 5000, 5000, 150'000};
    letter.count = draw(40) == 0 ? 1'500'000 : sizes[draw(std::size(sizes))];
  }
  return all;
}

/// One rank's part of a round of letters beside collectives.
class Round {
 public:
  Round(KVStore& store, const std::vector<Letter>& letters, std::mt19937_64& own)
      : store_(store), letters_(letters), own_(own), sums_(keys, std::vector<float>(300)) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const Letter& letter = letters[i];
      if (letter.from != store.rank() && letter.to != store.rank()) continue;
      Mail& mail = mail_.emplace_back(i, letter.count);
      if (letter.from == store.rank()) mail.bytes.fill(store.rank(), i);
    }
  }

  void exchange() {
    call_all();
    std::shuffle(pendings_.begin(), pendings_.end(), own_);
    for (const Pending& pending : pendings_) pending.wait();
  }

  void check() const {
    for (const Mail& mail : mail_) {
      const Letter& letter = letters_[mail.number];
      if (letter.to != store_.rank()) continue;
      INFO("letter " << mail.number << " of " << letter.count << " bytes from rank "
                     << letter.from);
      CHECK(mail.bytes.are_from(letter.from, mail.number));
      if (letter.any) CHECK(mail.source == letter.from);
    }
    for (const std::vector<float>& sum : sums_) {
      CHECK(std::all_of(sum.begin(), sum.end(), [this](float value) {
        return value == static_cast<float>(store_.num_workers());
      }));
    }
  }

 private:
  static constexpr std::size_t keys = 12;
  struct Mail {
    Mail(std::size_t index, std::size_t count) : number(index), bytes(count) {}
    std::size_t number;
    Bytes bytes;
    int source = -1;
  };

  /// In an order of this rank's own, but for letters between the same two ranks with one tag.
  void call_all() {
    std::vector<std::size_t> order(keys);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), own_);
    auto mail = mail_.begin();
    while (mail != mail_.end() || !order.empty()) {
      if (mail != mail_.end() && (order.empty() || own_() % (mail_.size() / keys + 2) != 0)) {
        call(*mail++);
      } else {
        std::vector<float>& sum = sums_[order.back()];
        std::fill(sum.begin(), sum.end(), 1.0F);
        const Tensor tensor(sum.data(), {300}, DType::f32);
        pendings_.push_back(store_.pushpull("sum" + std::to_string(order.back()), tensor, tensor));
        order.pop_back();
      }
    }
  }

  void call(Mail& mail) {
    const Letter& letter = letters_[mail.number];
    if (letter.from == store_.rank()) {
      pendings_.push_back(store_.send(mail.bytes.tensor(), letter.to, letter.tag));
    } else {
      pendings_.push_back(store_.recv(mail.bytes.tensor(), letter.any ? any_rank : letter.from,
                                      letter.tag, &mail.source));
    }
  }

  KVStore& store_;
  const std::vector<Letter>& letters_;
  std::mt19937_64& own_;
  std::deque<Mail> mail_;
  std::vector<std::vector<float>> sums_;
  std::vector<Pending> pendings_;
};

}  // namespace

TEST_CASE("sends and recvs at random beside collectives in a random order arrive whole") {
  const char* const given = std::getenv("STORE_TEST_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 20;
  const std::uint64_t seed = agreed_seed();
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  std::mt19937_64 shared(seed);
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(store->rank()));
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    const auto letters = random_letters(shared, store->num_workers(), 100);
    Round mine(*store, letters, own);
    mine.exchange();
    mine.check();
  }
}
