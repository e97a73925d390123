// Sends and recvs at random; run under mpirun with any number of ranks.
#include <algorithm>
#include <deque>
#include <numeric>

#include "peers_fixture.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;

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
    // The elements of the larger ones of these wait for their receive.
    constexpr std::size_t sizes[] = {0, 1, 100, 5000, 16'384, 16'385, 150'000};
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

  /// Makes the calls in this rank's own order. Only letters between the same two ranks with one tag
  /// keep their order.
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
