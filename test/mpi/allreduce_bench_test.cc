// The race itself, at any number of ranks.
#include <catch2/catch.hpp>

#include "benchmarks/allreduce/measure.h"

using namespace tutti;
using namespace tutti::bench;

namespace {

const World& world() {
  static int argc = 0;
  static char** argv = nullptr;
  static const World world(argc, argv);
  return world;
}

/// MPI under another name, that writes down when it ran; a lazy one leaves its result alone.
class Fake : public Contestant {
 public:
  Fake(const Settings& settings, std::string name, std::string& log, bool lazy)
      : mpi_(make_mpi(settings)), name_(std::move(name)), log_(log), lazy_(lazy) {}
  std::string impl() const override { return name_; }
  std::string version() const override { return "1"; }
  Buffers prepare(const Case& now, const Buffers& own) override { return mpi_->prepare(now, own); }
  void run() override {
    log_ += name_;
    if (!lazy_) mpi_->run();
  }

 private:
  const std::unique_ptr<Contestant> mpi_;
  const std::string name_;
  std::string& log_;
  const bool lazy_;
};

struct Fixture {
  Settings settings;
  Case how;
  std::string log;

  std::vector<Row> race(std::size_t count, bool lazy = false) {
    std::vector<std::unique_ptr<Contestant>> contestants;
    contestants.push_back(std::make_unique<Fake>(settings, "a", log, false));
    contestants.push_back(std::make_unique<Fake>(settings, "b", log, lazy));
    return Race(world(), settings, std::move(contestants)).run(how, count);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "contestants take turns, warm-up first") {
  settings.warmup = 2;
  settings.iterations = 3;
  const std::vector<Row> rows = race(100);
  CHECK(log == "ababababab");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].impl == "a");
  CHECK(rows[1].iterations == 3);
}

TEST_CASE_METHOD(Fixture, "right results have no wrong element, in every dtype, in place or not") {
  settings.iterations = 2;
  settings.dtype = GENERATE(DType::f32, DType::f64, DType::i8, DType::u8, DType::i32, DType::i64);
  how.in_place = GENERATE(false, true);
  for (const Row& row : race(40000)) CHECK(row.wrong == 0);
}

TEST_CASE_METHOD(Fixture, "a broadcast gives the root's values") {
  how = {.op = Operation::broadcast, .in_place = true};
  settings.root = world().size() - 1;
  settings.iterations = 2;
  settings.dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for (const Row& row : race(1000)) CHECK(row.wrong == 0);
}

TEST_CASE_METHOD(Fixture, "minima and maxima are right, and a lazy contestant's are not") {
  how.redop = GENERATE(ReduceOp::min, ReduceOp::max);
  settings.iterations = 2;
  for (const Row& row : race(1000)) CHECK(row.wrong == 0);
  if (world().size() > 1) CHECK(race(1000, true)[1].wrong > 0);
}

TEST_CASE_METHOD(Fixture, "operations with shares give those of all ranks, in place or not") {
  how.op = GENERATE(Operation::reduce_scatter, Operation::allgather, Operation::all_to_all);
  how.in_place = GENERATE(false, true);
  settings.iterations = 2;
  const std::size_t count = static_cast<std::size_t>(world().size()) * 1000;
  for (const Row& row : race(count)) CHECK(row.wrong == 0);
  const bool lazy = true;
  if (!how.in_place) CHECK(race(count, lazy)[1].wrong > count);
}

TEST_CASE_METHOD(Fixture, "each rank gets the input of the one before it") {
  if (world().size() == 1) return;
  how.op = Operation::sendrecv;
  settings.iterations = 2;
  for (const Row& row : race(1000)) CHECK(row.wrong == 0);
  CHECK(race(1000, true)[1].wrong > 1000);
}

TEST_CASE_METHOD(Fixture, "the rate of copies is measured where ranks share a memory") {
  settings.iterations = 1;
  how.op = GENERATE(Operation::allreduce, Operation::reduce_scatter, Operation::allgather);
  how.in_place = GENERATE(false, true);
  const std::size_t count = static_cast<std::size_t>(world().size()) << 18;
  for (const Row& row : race(count)) {
    CHECK(row.wrong == 0);
    CHECK((row.copy_rate > 0) == (world().size() > 1));
  }
  CHECK(race(static_cast<std::size_t>(world().size()) * 100)[0].copy_rate == 0);
}

TEST_CASE_METHOD(Fixture, "a result that was not written is wrong, in each turn and on each rank") {
  settings.warmup = 1;
  settings.iterations = 4;
  const std::vector<Row> rows = race(1000, true);
  CHECK(rows[0].wrong == 0);
  const double all = 1000.0 * 5 * world().size();
  CHECK(static_cast<double>(rows[1].wrong) > 0.7 * all);
  settings.check = false;
  CHECK(race(1000, true)[1].wrong == 0);
}

TEST_CASE_METHOD(Fixture, "all ranks agree on as many iterations as the time allows") {
  settings.seconds = 1e-9;
  CHECK(race(10)[0].iterations == 5);
  settings.least = 1;
  CHECK(race(10)[0].iterations == 1);
  settings.seconds = 1000;
  CHECK(race(10)[0].iterations == 1000);
  settings.seconds = 0.05;
  const double iterations = race(100'000)[0].iterations;
  CHECK(world().largest(iterations) == iterations);
  CHECK(world().largest(-iterations) == -iterations);
}
