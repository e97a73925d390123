#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/completion.h"
#include "runtime/waiter.h"

// Stands in for the header of the same name: as much of an executor as a progress lock can tell
// from the real one. Calls move as there, but in numbers alone, and a pass leaves the same to the
// next one.
namespace tutti::runtime {

struct Call {
  base::Completion* completion = nullptr;
  bool has_deleter = false;    ///< of the program's: the communication thread settles it
  bool has_callback = false;   ///< likewise, after it is settled
  bool escapes = false;        ///< replay lacks it: planned once the rank tells that somebody waits
  bool is_long = false;        ///< takes several passes
  bool between_nodes = false;  ///< and user threads leave it alone; its gate must be polled
};

struct Due {
  base::Completion* completion = nullptr;
  Call* call = nullptr;  ///< not settled yet

  void run();
};

class Executor {
 public:
  /// `escaped` is settled when the rank tells the coordinator that somebody waits.
  Executor(bool replays, base::Completion& escaped) : replays_(replays), escaped_(escaped) {}

  void submit(Call* call) { submitted_.push_back(call); }
  bool is_departing() const { return departed_ != nullptr; }
  void plan() { is_planned_ = true; }
  void depart(base::Completion* departed) { departed_ = departed; }
  void peer_arrives() { ++arrived_; }
  /// From now on no thread may use it.
  void end() { ended_ = true; }
  bool has_done_all() const;
  /// The longest that a pass came after its deadline.
  base::Clock::duration lateness() const { return lateness_; }

  bool pass();
  bool may_accept() const { return replays_ || finished_calls_ == taken_; }
  bool accept();
  bool has_open_batch() const { return entered_ > done_; }
  bool is_idle() const { return finished_calls_ == taken_; }
  bool is_busy() const;
  bool has_leftovers() const { return has_unseen_gate_ || (moved_ && is_asking_who_waits()); }
  struct Rest {
    Waiter::For reason = Waiter::For::doorbell;
    base::Clock::time_point until;
  };
  Rest prepare_rest();
  base::Clock::time_point looked_at() const { return looked_at_; }
  bool has_dues() const { return !dues_.empty(); }
  void take_dues(std::vector<Due>& into) { std::swap(dues_, into); }
  bool may_use_any_thread() const { return true; }
  bool has_several_nodes() const { return true; }
  bool has_long_transfer() const;
  void note_own_thread() {}
  bool is_finished() const { return is_finished_; }

 private:
  void begin() const;
  bool look_around();
  bool has_actions() const { return finished_calls_ < done_ || may_enter() || may_depart(); }
  bool may_depart() const;
  bool may_enter() const;
  bool apply_actions();
  bool look_at_gate();
  bool move_data();
  bool is_polling() const;
  bool is_asking_who_waits() const;
  bool note_waits();
  void finish(Call* call);
  bool note(bool moved);

  const bool replays_;
  base::Completion& escaped_;
  std::vector<Call*> submitted_;
  // How many calls, in the order of submission, have come to each stage.
  std::size_t taken_ = 0, entered_ = 0, closed_ = 0, started_ = 0, done_ = 0, finished_calls_ = 0;
  std::size_t arrived_ = 0;  ///< gates at which the peer has arrived
  bool half_done_ = false;
  bool has_unseen_gate_ = false;
  bool is_planned_ = false;  ///< the call that escapes
  bool moved_ = false;
  base::Completion* departed_ = nullptr;
  bool is_finished_ = false;
  bool ended_ = false;
  std::vector<Due> dues_;
  base::Clock::time_point looked_at_{};
  base::Clock::time_point flush_at_ = base::Clock::time_point::max();
  base::Clock::duration lateness_{};
};

}  // namespace tutti::runtime
