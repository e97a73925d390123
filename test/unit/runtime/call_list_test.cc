#include "runtime/call_list.h"

#include <catch2/catch.hpp>
#include <string>

#include "tutti/error.h"
#include "tutti/pending.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

std::shared_ptr<CallList> opened(CallPool& pool, std::size_t count) {
  auto list = pool.take(count);
  for (std::size_t i = 0; i < count; ++i) list->calls[i].key = static_cast<std::int64_t>(i + 1);
  list->open("pull", {});
  return list;
}

}  // namespace

TEST_CASE("a call names its first key and counts the others") {
  const auto pool = std::make_shared<CallPool>();
  CHECK(opened(*pool, 1)->describe() == "pull of 1");
  CHECK(opened(*pool, 2)->describe() == "pull of 1 and 1 more key");
  CHECK(opened(*pool, 3)->describe() == "pull of 1 and 2 more keys");
}

TEST_CASE("a list is used again once nobody holds it, and never before") {
  const auto pool = std::make_shared<CallPool>();
  auto first = opened(*pool, 5);
  const CallList* const place = first.get();
  CHECK(opened(*pool, 5).get() != place);
  std::weak_ptr<CallList> watched = first;
  first.reset();
  CHECK(opened(*pool, 5).get() != place);
  CHECK(watched.expired());
  watched.reset();
  const auto one = opened(*pool, 5);
  const auto other = opened(*pool, 5);
  CHECK((one.get() == place || other.get() == place));
}

TEST_CASE("a list that is used again is a new call, with the memory of the one before") {
  const auto pool = std::make_shared<CallPool>();
  const std::string long_name(100, 'k');
  auto list = opened(*pool, 7);
  list->calls[6].key = long_name;
  const CallList* const place = list.get();
  const char* const name = list->calls[6].key.string().data();
  list->begun = 3;
  for (int part = 0; part < 7; ++part) list->completion->settle();
  list.reset();
  for (const std::size_t count : {std::size_t{4}, std::size_t{7}}) {
    list = pool->take(count);
    list->open("pull", {});
    CHECK(list.get() == place);
    CHECK(list->begun == 0);
    CHECK_FALSE(list->completion->is_done());
    if (count == 7) CHECK(list->calls[6].key.string().data() == name);
    list.reset();
  }
}

TEST_CASE("long lists and short ones do not take each other's memory") {
  const auto pool = std::make_shared<CallPool>();
  const CallList* const place = opened(*pool, 160).get();
  CHECK(opened(*pool, 1).get() != place);
  CHECK(opened(*pool, 160).get() == place);
}

TEST_CASE("a list in its pool holds no tensor") {
  const auto pool = std::make_shared<CallPool>();
  const auto memory = std::make_shared<float>();
  const Tensor tensor(memory, {1}, DType::f32);
  opened(*pool, 1)->calls[0].ins = tensor;
  opened(*pool, 1)->calls[0].outs = {tensor, tensor};
  CHECK(memory.use_count() == 2);
}

TEST_CASE("a list outlives its pool") {
  auto pool = std::make_shared<CallPool>();
  const auto memory = std::make_shared<float>();
  auto list = opened(*pool, 1);
  list->calls[0].ins = Tensor(memory, {1}, DType::f32);
  list->calls[0].outs = {Tensor(memory, {1}, DType::f32), Tensor(memory, {1}, DType::f32)};
  CHECK(memory.use_count() == 4);
  const std::weak_ptr<CallPool> watched = pool;
  pool.reset();
  CHECK_FALSE(watched.expired());
  list.reset();
  CHECK(memory.use_count() == 1);
  CHECK(watched.expired());
}

TEST_CASE("a Pending keeps its list") {
  const auto pool = std::make_shared<CallPool>();
  auto list = opened(*pool, 1);
  base::Completion* const completion = &*list->completion;
  const Pending pending(std::shared_ptr<base::Completion>(std::move(list), completion));
  completion->finish(std::make_exception_ptr(Error(ErrorCode::timeout, "late")));
  CHECK(&*opened(*pool, 1)->completion != completion);
  CHECK_THROWS_WITH(pending.wait(), "late");
}
