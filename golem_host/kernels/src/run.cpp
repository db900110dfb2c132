// Replaying a recorded pass.
#include <atomic>

#include "command.h"
#include "matmuls.h"

namespace {

using golem::Command;

int (*const kOps[])(const Command &) = {
    nullptr,
    golem::run_rows,
    golem::run_act,
    nullptr,  // matmuls run in groups
    golem::run_rms_norm,
    golem::run_rope_angles,
    golem::run_rope,
    golem::run_store,
    golem::run_attn,
    golem::run_gate,
    golem::run_add,
    golem::run_mul,
    golem::run_scale,
    golem::run_softcap,
    golem::run_select,
    golem::run_copy,
    golem::run_conv,
    golem::run_delta,
    golem::run_route,
    golem::run_experts,
    golem::run_mix,
    golem::run_l2_norm,
    golem::run_decay,
    golem::run_lay,
    golem::run_layer_norm,
    golem::run_text_attn,
    golem::run_mean,
    golem::run_block_maxima,
    golem::run_arg_largest,
    golem::run_temperature,
    golem::run_hadamard,
    golem::run_windows,
    golem::run_full_attn,
    golem::run_conv2d,
};
constexpr int32_t kOpCount = sizeof kOps / sizeof kOps[0];
static_assert(kOpCount == GOLEM_OP_CONV2D + 1, "one entry per opcode");

}  // namespace

struct golem_pool {
  explicit golem_pool(int threads) : pool(threads) {}
  golem::Pool pool;
  std::atomic<bool> busy{false};
};

namespace {

// The live rows of a command.
int rows_of(const golem_cmd &cmd, const int64_t *live, int64_t &rows) {
  rows = cmd.rows;
  if (cmd.axis >= 0) {
    if (live == nullptr) return GOLEM_E_NULL;
    rows = live[cmd.axis];
    if (rows > cmd.rows) return GOLEM_E_ROWS;
  }
  return rows < 0 || rows >= int64_t{1} << 31 ? GOLEM_E_ROWS : GOLEM_OK;
}

int run_command(const golem_cmd &cmd, const int64_t *live, golem::Pool &pool) {
  if (cmd.op <= 0 || cmd.op >= kOpCount || kOps[cmd.op] == nullptr) return GOLEM_E_OP;
  int64_t rows;
  const int error = rows_of(cmd, live, rows);
  if (error != GOLEM_OK || rows == 0) return error;
  return kOps[cmd.op](Command{cmd, live, rows, pool});
}

// How many of n commands are matmuls that may run together, from the first on.
int64_t together(const golem_cmd *cmds, int64_t n) {
  int64_t count = 1;
  while (cmds[count - 1].i[4] != 0 && count < n && cmds[count].op == GOLEM_OP_MATMUL) count++;
  return count;
}

int run_matmuls(const golem_cmd *cmds, int64_t n, const int64_t *live, golem::Pool &pool, int64_t &failed) {
  golem::Matmuls matmuls(pool);
  for (failed = 0; failed < n; failed++) {
    int64_t rows;
    int error = rows_of(cmds[failed], live, rows);
    if (error == GOLEM_OK && rows > 0) error = matmuls.add(Command{cmds[failed], live, rows, pool});
    if (error != GOLEM_OK) return error;
  }
  matmuls.run();
  return GOLEM_OK;
}

}  // namespace

golem_pool *golem_pool_new(int threads) {
  if (threads < 1 || threads > 256) return nullptr;
  try {
    return new golem_pool(threads);
  } catch (...) {
    return nullptr;
  }
}

void golem_pool_free(golem_pool *pool) { delete pool; }

int golem_run(golem_pool *pool, const golem_cmd *cmds, int64_t n, const int64_t *live, int64_t *failed_at) {
  if (pool == nullptr || failed_at == nullptr || (cmds == nullptr && n > 0)) return GOLEM_E_NULL;
  *failed_at = -1;
  if (pool->busy.exchange(true)) return GOLEM_E_BUSY;
  int error = GOLEM_OK;
  for (int64_t at = 0; at < n && error == GOLEM_OK;) {
    int64_t count = 1, failed = 0;
    if (cmds[at].op == GOLEM_OP_MATMUL) {
      count = together(cmds + at, n - at < golem::Matmuls::kMost ? n - at : golem::Matmuls::kMost);
      error = run_matmuls(cmds + at, count, live, pool->pool, failed);
    } else {
      error = run_command(cmds[at], live, pool->pool);
    }
    if (error != GOLEM_OK) *failed_at = at + failed;
    at += count;
  }
  pool->busy.store(false);
  return error;
}

int golem_abi(void) { return GOLEM_ABI; }

const char *golem_error_text(int code) {
  switch (code) {
    case GOLEM_OK: return "no error";
    case GOLEM_E_OP: return "unknown opcode";
    case GOLEM_E_SHAPE: return "a size or constant of the command is out of range, or does not fit the block type";
    case GOLEM_E_TYPE: return "weight, activation, cache, style or gate type not supported";
    case GOLEM_E_NULL: return "a pointer is missing";
    case GOLEM_E_ROWS: return "live row count outside the capacity of the command";
    case GOLEM_E_ID: return "row or expert outside the table";
    case GOLEM_E_SLOT: return "slot outside the cache";
    case GOLEM_E_POSITION: return "position negative, more positions attended than the cache ring holds, or not the next of its slot's state";
    case GOLEM_E_INDEX: return "row index outside the source";
    case GOLEM_E_MEMORY: return "out of memory";
    case GOLEM_E_BUSY: return "the pool is already running";
    case GOLEM_E_STRINGS: return "a string leaves the buffer";
    default: return "unknown error code";
  }
}
