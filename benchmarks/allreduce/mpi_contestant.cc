#include <mpi.h>

#include "benchmarks/allreduce/contestant.h"
#include "benchmarks/allreduce/world.h"

namespace tutti::bench {
namespace {

/// MPI has no type for 16-bit floats. Operations that only copy them move 16-bit integers.
MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return MPI_INT16_T;
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i8:
      return MPI_INT8_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

/// MPI has no average.
MPI_Op op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    default:
      return MPI_OP_NULL;
  }
}

class MpiContestant : public Contestant {
 public:
  explicit MpiContestant(const Settings& settings)
      : settings_(settings), type_(type_of(settings.dtype)) {}

  std::string impl() const override { return "mpi"; }
  std::string version() const override { return mpi_version(); }

  Buffers prepare(const Case& now, const Buffers& own) override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    case_ = now;
    buffers_ = own;
    // In place MPI leaves a reduce_scatter's shard at the beginning.
    if (now.op == Operation::reduce_scatter && now.in_place) buffers_.out = own.in;
    return buffers_;
  }

  void run() override {
    const void* const in = case_.in_place ? MPI_IN_PLACE : buffers_.in;
    void* const out = buffers_.out;
    const int in_count = static_cast<int>(buffers_.in_count);
    const int out_count = static_cast<int>(buffers_.out_count);
    const MPI_Op op = op_of(case_.redop);
    switch (case_.op) {
      case Operation::allreduce:
        MPI_Allreduce(in, out, out_count, type_, op, MPI_COMM_WORLD);
        break;
      case Operation::broadcast:
        MPI_Bcast(out, out_count, type_, settings_.root, MPI_COMM_WORLD);
        break;
      case Operation::reduce_scatter:
        MPI_Reduce_scatter_block(in, out, out_count, type_, op, MPI_COMM_WORLD);
        break;
      case Operation::allgather:
        MPI_Allgather(in, in_count, type_, out, in_count, type_, MPI_COMM_WORLD);
        break;
      case Operation::all_to_all:
        MPI_Alltoall(in, in_count / size_, type_, out, in_count / size_, type_, MPI_COMM_WORLD);
        break;
      case Operation::sendrecv:
        MPI_Sendrecv(in, in_count, type_, (rank_ + 1) % size_, 0, out, out_count, type_,
                     (rank_ + size_ - 1) % size_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    }
  }

 private:
  const Settings& settings_;
  const MPI_Datatype type_;
  int rank_ = 0;
  int size_ = 1;
  Case case_;
  Buffers buffers_;
};

}  // namespace

std::unique_ptr<Contestant> make_mpi(const Settings& settings) {
  return std::make_unique<MpiContestant>(settings);
}

}  // namespace tutti::bench
