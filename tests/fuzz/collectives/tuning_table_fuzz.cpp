// The table of measured times that TOMBOLO_TUNING names: any mistake in it must be an error, and what is
// taken must lead to an algorithm for every size.
#include "base/error.h"
#include "collectives/schedule/tuning_table.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using collectives::TuningTable;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TuningTable table;
  try {
    table = TuningTable::decode(fuzz::grown(data, size), "input");
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return 0;
  }
  for (const collectives::TuningRow& row : table.rows) {
    FUZZ_CHECK(table.find(row.collective, row.from_bytes) == &row);
    FUZZ_CHECK(table.find(row.collective, row.to_bytes) == &row);
    FUZZ_CHECK(row.way.algorithm == nullptr || row.way.algorithm->collective == row.collective);
    measured_near(row, row.from_bytes);
  }
  FUZZ_CHECK(TuningTable::decode(table.encode(), "output") == table);
  return 0;
}
