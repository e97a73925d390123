#include "runtime/mpi_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/wait_limits.h"

namespace tutti::runtime {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

// The time for which the process goes on after a rank has ended. If the other ranks are nearly
// through, MPI may still return. A stopped rank gets no such time, because it has had its limit.
constexpr milliseconds grace_at_start = 2s;
constexpr milliseconds grace_at_end = 3s;

double seconds(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Appends text such as "ranks 1, 2 still run". Appends nothing if there are no ranks.
void say(std::string& text, const std::vector<int>& ranks, const char* one, const char* several) {
  if (ranks.empty()) return;
  text += fmt::format("{}rank{} {} {}", text.empty() ? "" : ", ", ranks.size() == 1 ? "" : "s",
                      fmt::join(ranks, ", "), ranks.size() == 1 ? one : several);
}

/// Remembers which rank was first seen to be lost, and when.
class Loss {
 public:
  using Poll = std::function<std::optional<control::Presence::Lost>()>;

  Loss(Poll poll, milliseconds grace) : poll_(std::move(poll)), grace_(grace) {}

  /// Returns a loss that is older than the grace time, or a stop. Then the call is hopeless.
  std::optional<control::Presence::Lost> after(milliseconds waited) {
    const auto lost = poll_();
    if (!lost) {
      since_.reset();
      return std::nullopt;
    }
    // Ranks that end later do so because of the first one.
    if (!since_ || lost->stopped) first_ = *lost;
    if (!since_) since_ = waited;
    if (!first_.stopped && waited - *since_ < grace_) return std::nullopt;
    return first_;
  }

 private:
  const Poll poll_;
  const milliseconds grace_;
  std::optional<milliseconds> since_;
  control::Presence::Lost first_;
};

std::string who_has_not_come(control::Presence& presence) {
  const int on_machine = presence.on_machine();
  const control::Presence::Roll roll = presence.call();
  const auto seen = static_cast<std::size_t>(presence.size()) - roll.unseen.size();
  std::string text;
  if (on_machine == presence.size()) {
    say(text, roll.unseen, "has not called create", "have not called create");
  } else {
    text = fmt::format("{} of {} ranks have called create on this machine", seen,
                       on_machine > 0 ? std::to_string(on_machine) : "its");
  }
  say(text, roll.stopped, "is stopped", "are stopped");
  if (text.empty()) {
    return "all ranks have called create, so MPI itself takes that long: raise create_timeout";
  }
  return text +
         "; MPI starts on all ranks of the job together: one that creates no dist_sync_mpi store "
         "with other ranks (none, one of another type, one over itself alone) calls MPI_Init "
         "instead (Python: import mpi4py.MPI); else it has ended, or is busy or stuck before its "
         "create";
}

}  // namespace

base::Watchdog::Look watch_start(control::Presence& presence, std::shared_ptr<FailureDetector> ends,
                                 const Options& options) {
  const auto loss =
      std::make_shared<Loss>([ends = std::move(ends),
                              limit = options.heartbeat_timeout] { return ends->poll_lost(limit); },
                             grace_at_start);
  const auto next_report = std::make_shared<milliseconds>(options.stall_report_after);
  return [&presence, loss, next_report, limit = options.create_timeout](
             milliseconds waited) -> std::optional<base::Watchdog::Finding> {
    constexpr auto end =
        "MPI_Init, so no key was in flight; nothing interrupts it, so this process ends with "
        "status 1";
    if (const auto lost = loss->after(waited)) {
      return {{fmt::format("rank {} is lost: {} while rank {} was in {}", lost->rank, lost->reason,
                           presence.rank(), end),
               true}};
    }
    if (waited >= limit) {
      return {{fmt::format("rank {} has waited {} for the other ranks in {}: {}", presence.rank(),
                           base::create_limit(limit), end, who_has_not_come(presence)),
               true}};
    }
    if (waited < *next_report) return std::nullopt;
    *next_report *= 2;
    return {{fmt::format("rank {} has been in MPI_Init for {:.1f} s, which waits for every rank of "
                         "the job: {}",
                         presence.rank(), seconds(waited), who_has_not_come(presence)),
             false}};
  };
}

base::Watchdog::Look watch_end(control::Presence& presence, const Options& options) {
  const auto loss = std::make_shared<Loss>(
      [&presence, limit = options.heartbeat_timeout] { return presence.poll_lost(limit); },
      grace_at_end);
  const auto next_report = std::make_shared<milliseconds>(options.stall_report_after);
  return [&presence, loss, next_report, limit = options.key_timeout](
             milliseconds waited) -> std::optional<base::Watchdog::Finding> {
    if (const auto lost = loss->after(waited)) {
      return {{fmt::format("rank {} is lost: {} while rank {} waited for it in MPI_Finalize, so no "
                           "key was in flight; this process ends without, and with a status that "
                           "is not 0",
                           lost->rank, lost->reason, presence.rank()),
               true}};
    }
    if (waited < *next_report && waited < limit) return std::nullopt;
    *next_report *= 2;
    const control::Presence::Roll roll = presence.call();
    std::string who;
    say(who, roll.stopped, "is stopped", "are stopped");
    say(who, roll.running, "still runs", "still run");
    say(who, roll.ended, "has ended", "have ended");
    say(who, roll.unseen, "is not seen from here (another machine, or no store)",
        "are not seen from here (another machine, or no store)");
    if (who.empty()) who = "nobody that is seen from here";
    const bool late = waited >= limit;
    return {
        {fmt::format("rank {} has been in MPI_Finalize for {:.1f} s, which waits for every rank "
                     "to end: {}{}",
                     presence.rank(), seconds(waited), who,
                     late ? fmt::format("; after {} this process ends without, and with a status "
                                        "that is not 0",
                                        base::key_limit(limit))
                          : ""),
         late}};
  };
}

}  // namespace tutti::runtime
