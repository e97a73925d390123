#include "runtime/creating.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/doorbell.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/wait_limits.h"
#include "coordinator/text.h"

namespace tutti::runtime {
namespace {

using namespace std::chrono_literals;

/// After this time two ranks that each wait for the other one's store will hardly ever meet.
constexpr auto soon = 2s;

std::string text_of(const control::Creation& creation) {
  return fmt::format("store {} over {}", creation.number + 1,
                     creation.ranks.empty() ? "all ranks" : coordinator::rank_list(creation.ranks));
}

}  // namespace

Creating::Creating(control::Presence* presence, std::vector<int> group, int stores,
                   std::chrono::milliseconds report_after)
    : presence_(presence),
      mine_{std::move(group), stores, false},
      report_after_(report_after),
      next_look_(start_ + std::min<base::Clock::duration>(soon, report_after)) {
  if (presence_ != nullptr) presence_->creations().begin(mine_);
}

Creating::~Creating() {
  end(true);
}

void Creating::end(bool given_up) {
  if (presence_ != nullptr && !std::exchange(ended_, true)) {
    presence_->creations().end(mine_, given_up);
  }
}

std::vector<int> Creating::others() const {
  std::vector<int> ranks = mine_.ranks;
  if (presence_ == nullptr) return {};
  for (int rank = 0; mine_.ranks.empty() && rank < presence_->size(); ++rank) ranks.push_back(rank);
  std::erase(ranks, presence_->rank());
  return ranks;
}

bool Creating::is_late(int rank) const {
  const Doing doing = look_at(rank).doing;
  return doing != Doing::the_same && doing != Doing::unknown;
}

bool Creating::has_part(const control::Creation& creation) const {
  return creation.ranks.empty() ||
         std::binary_search(creation.ranks.begin(), creation.ranks.end(), presence_->rank());
}

Creating::Other Creating::look_at(int rank) const {
  const auto all = presence_->creations().of(rank);
  if (!all && presence_->has_yet_to_come(rank)) return {Doing::nothing, "has not called create"};
  if (!all) return {Doing::unknown, "is not seen from here"};
  Other other{Doing::nothing, ""};
  for (const control::Creation& one : *all) {
    if (one.ranks == mine_.ranks) other.doing = one.given_up ? Doing::gave_up : Doing::the_same;
    const bool another = one.ranks != mine_.ranks && !one.given_up && has_part(one);
    if (another && other.doing == Doing::nothing) other.doing = Doing::another;
    other.text += fmt::format("{}{} {}", other.text.empty() ? "" : " and ",
                              one.given_up ? "has given up" : "creates", text_of(one));
  }
  if (other.text.empty()) other.text = "creates none";
  return other;
}

std::string Creating::what_all_do() const {
  std::map<std::string, std::vector<int>> doing;
  for (const int rank : others()) doing[look_at(rank).text].push_back(rank);
  std::string text =
      fmt::format("in the job's numbers, rank {} creates {}", presence_->rank(), text_of(mine_));
  for (const auto& [what, ranks] : doing) {
    text += fmt::format(", {}{} {}", coordinator::rank_list(ranks), ranks.size() > 1 ? " each" : "",
                        what);
  }
  return text;
}

void Creating::look() {
  const auto now = base::Clock::now();
  if (presence_ == nullptr || now < next_look_) return;
  const auto waited = now - start_;
  const std::vector<int> ranks = others();
  const bool differ = std::any_of(ranks.begin(), ranks.end(), [this](int rank) {
    return look_at(rank).doing == Doing::another;
  });
  next_look_ = start_ + std::max<base::Clock::duration>(report_after_, 2 * waited);
  if (!differ && waited < report_after_) return;
  base::log().warn(
      "waiting for other ranks to create their store for {:.1f} s: {}{}",
      std::chrono::duration<double>(waited).count(), what_all_do(),
      differ ? "; ranks that share stores create these in the same order, with equal ranks" : "");
}

std::vector<int> Creating::late() const {
  std::vector<int> late;
  // The ranks that have given up this store, because they waited like this one.
  std::vector<int> gave_up;
  const int size = mine_.ranks.empty() ? presence_->size() : static_cast<int>(mine_.ranks.size());
  for (int rank = 0; rank < size; ++rank) {
    const int in_job = mine_.ranks.empty() ? rank : mine_.ranks[static_cast<std::size_t>(rank)];
    if (in_job == presence_->rank() || !is_late(in_job)) continue;
    (look_at(in_job).doing == Doing::gave_up ? gave_up : late).push_back(rank);
  }
  return late.empty() ? gave_up : late;
}

void Creating::wait_for_machine(std::chrono::milliseconds limit,
                                const std::function<void()>& look) {
  const auto start = base::Clock::now();
  base::Doorbell never;
  std::vector<int> missing = others();
  for (;;) {
    // Looks at one rank at a time, because each look opens a file.
    while (!missing.empty() && !is_late(missing.back())) missing.pop_back();
    if (missing.empty()) return;
    const auto now = base::Clock::now();
    if (now - start > limit) {
      throw Error(ErrorCode::timeout, fmt::format("waited {} for every rank to create its store",
                                                  base::create_limit(limit)));
    }
    look();
    never.wait(never.ticket(),
               now + std::clamp<base::Clock::duration>((now - start) / 8, 50us, 20ms));
  }
}

Error Creating::explain(const Error& error) const {
  if (presence_ == nullptr || error.code() != ErrorCode::timeout) return error;
  const std::string text = fmt::format("{}; {}", error.what(), what_all_do());
  if (!error.ranks().empty()) return base::reworded(error, text);
  return {error.code(), text, {.key = {}, .ranks = late()}};
}

}  // namespace tutti::runtime
