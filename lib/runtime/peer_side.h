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

/// A send or a receive of the program.
struct PeerCall {
  PeerCall(bool is_send, const Tensor& tensor, int peer, int tag, int* whence,
           std::weak_ptr<base::Driver> driver);

  const bool sends;
  const p2p::Envelope envelope;
  int* const source;  ///< for a receive: where to write the rank that sent the tensor; may be null
  TensorCall holder;  ///< keeps the tensor, and does nothing else
  base::Completion completion;
};

/// A session's side of calls between two ranks: their memory, the messenger that moves the tensors,
/// and the calls that are not over. Only the thread that moves the executor uses it.
class PeerSide {
 public:
  struct Memory {
    base::Fd file;  ///< of `p2p::PairMemory::bytes`; its head is reserved
    base::Mapper map = base::map_file;
    std::vector<base::Doorbell*> doorbells;  ///< the bells of the node's ranks
  };
  struct Ended {
    std::shared_ptr<PeerCall> call;
    std::optional<Error> error;
  };

  /// The references outlive this object.
  PeerSide(const topology::Topology& topology, Memory memory,
           const p2p::BetweenNodes& between_nodes, p2p::SessionTime limit,
           p2p::Messenger::IsClosing is_closing);

  void submit(p2p::SessionTime now, const std::shared_ptr<PeerCall>& call);
  p2p::Messenger& messenger() { return messenger_; }
  const p2p::Messenger& messenger() const { return messenger_; }
  /// Takes the calls that have ended since the last time.
  std::vector<Ended> take_ended();
  /// Takes all calls that are not over, because the session has failed.
  std::vector<std::shared_ptr<PeerCall>> drop_all();
  /// The calls that are not over, in their order, as text: "send to rank 1 with tag 3".
  std::vector<std::string> in_flight() const;
  /// Whether a thread of the program waits for one of the calls.
  bool is_waited_for() const;

 private:
  p2p::PairMemory memory_;
  p2p::Messenger messenger_;
  std::unordered_map<p2p::TransferId, std::shared_ptr<PeerCall>> calls_;
  p2p::TransferId next_call_ = 0;
  std::vector<Ended> refused_;
};

}  // namespace tutti::runtime
