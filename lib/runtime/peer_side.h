#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/completion.h"
#include "p2p/messenger.h"
#include "runtime/call_list.h"
#include "tutti/error.h"
#include "tutti/tensor.h"

namespace tutti::runtime {

/// A send or a receive of the program's.
struct PeerCall {
  PeerCall(bool is_send, const Tensor& tensor, int peer, int tag, int* whence,
           std::weak_ptr<base::Driver> driver);

  const bool sends;
  const p2p::Envelope envelope;
  int* const source;  ///< of a receive: where to write the rank that sent the tensor; may be null
  TensorCall holder;  ///< of the tensor alone
  base::Completion completion;
};

/// A session's side of calls between two ranks: their memory, the messenger that moves them, and
/// the calls that are not over. One thread at a time uses it, the one that moves the executor.
class PeerSide {
 public:
  struct Memory {
    base::Fd file;  ///< of `p2p::PairMemory::bytes`; its head is reserved
    base::Mapper map = base::map_file;
    std::vector<base::Doorbell*> doorbells;  ///< of the node's ranks
  };
  struct Ended {
    std::shared_ptr<PeerCall> call;
    std::optional<Error> error;
  };

  /// The references outlive it.
  PeerSide(const topology::Topology& topology, Memory memory,
           const p2p::BetweenNodes& between_nodes, p2p::SessionTime limit,
           p2p::Messenger::IsClosing is_closing);

  void submit(p2p::SessionTime now, const std::shared_ptr<PeerCall>& call);
  p2p::Messenger& messenger() { return messenger_; }
  const p2p::Messenger& messenger() const { return messenger_; }
  /// Calls that are over, since the last time.
  std::vector<Ended> take_ended();
  /// The session has failed: all calls that are not over.
  std::vector<std::shared_ptr<PeerCall>> drop_all();
  /// "send to rank 1 with tag 3" for each call that is not over, in the order of the calls.
  std::vector<std::string> in_flight() const;
  /// A thread of the program waits for one of them.
  bool is_waited_for() const;

 private:
  p2p::PairMemory memory_;
  p2p::Messenger messenger_;
  std::unordered_map<p2p::TransferId, std::shared_ptr<PeerCall>> calls_;
  p2p::TransferId next_call_ = 0;
  std::vector<Ended> refused_;
};

}  // namespace tutti::runtime
