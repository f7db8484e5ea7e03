// The measured times of collective operations between the ranks of a run. `plimsoll bench --links` measures them, and plans
// estimate the exchange of gradients from them. Pure data; the functions are pure. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// The collective operations of a run (device/comm/communicator.h).
enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
inline constexpr std::array kCollectives{Collective::kAllReduce, Collective::kReduceScatter,
                                         Collective::kAllGather, Collective::kBroadcast};
// Returns the name of a collective operation, for example "all_reduce" for kAllReduce.
std::string_view collective_name(Collective collective);

// The mechanisms by which ranks exchange data.
enum class LinkExchange : uint8_t {
  kGloo,            // between CPUs: Gloo over TCP
  kMappedMemory,    // between GPUs: each maps the memory of the others
  kNccl,            // between GPUs: NCCL
  kNcclWithoutP2p,  // between GPUs: NCCL with NCCL_P2P_DISABLE=1, which copies data through host memory
};
// Returns the name in files: "gloo", "mapped_memory", "nccl", "nccl_without_p2p".
std::string_view link_exchange_name(LinkExchange exchange);
// Returns the name for messages to the user: "Gloo", "mapped memory", "NCCL", "NCCL without P2P".
std::string_view describe_link_exchange(LinkExchange exchange);

// Returns the bytes that each rank sends per byte of data: 2 (n - 1) / n for all_reduce, (n - 1) / n for reduce_scatter and
// all_gather, 1 for broadcast. nccl-tests multiplies the data per second (the algorithm bandwidth) by this factor to get the
// bus bandwidth, which does not depend on the number of ranks n and can be compared with the rate of the links
// (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). Requires: num_ranks >= 1.
double bus_factor(Collective collective, int num_ranks);

// The measured time of one collective operation for one size of data. The size is always that of the whole data, also for
// operations that divide it among the ranks.
struct LinkPoint {
  int64_t bytes = 0;
  double median_ms = 0;  // time of the slowest rank; median over the repetitions
  double spread = 0;     // half the interquartile range of the repetitions, as a fraction of the median
  int64_t num_runs = 0;
  friend bool operator==(const LinkPoint&, const LinkPoint&) = default;
};
// A measured curve: times of one operation for several data sizes, in ascending order of the sizes.
using LinkCurve = std::vector<LinkPoint>;

// The measurements for one way of exchanging data and one number of ranks.
struct MeasuredLinks {
  LinkExchange exchange = LinkExchange::kGloo;
  int num_ranks = 0;
  std::string date = {};  // date of the measurement, such as "2026-11-27"
  std::map<Collective, LinkCurve> curves = {};

  bool empty() const { return curves.empty(); }
  friend bool operator==(const MeasuredLinks&, const MeasuredLinks&) = default;
};

// Returns the time in milliseconds of an operation on this number of bytes. Between measured sizes it is interpolated linearly.
// Smaller data takes the time of the smallest size, and larger data is sent at the rate of the largest size. Requires: the curve
// is not empty.
double interpolated_ms(const LinkCurve& curve, double bytes);
// Returns the time in milliseconds of an operation in which each rank sends this number of bytes. If the operation was not
// measured, it is assumed to send as fast as all_reduce. Returns nothing if neither was measured.
std::optional<double> exchange_ms(const MeasuredLinks& links, Collective collective, double sent_bytes);

// The latency and the bandwidth that follow from a measured curve.
struct LinkRate {
  double latency_ms = 0;  // the time for the smallest measured size
  double gb_per_s = 0;    // the bus bandwidth (see bus_factor()) for the largest measured size
};
LinkRate link_rate(const LinkCurve& curve, Collective collective, int num_ranks);

// All measurements between the ranks of one machine, or of several machines.
struct LinkCalibration {
  std::string host = {};    // name of the machine of rank 0
  std::string device = {};  // name of the CPU or of the GPU
  int num_ranks = 0;
  int num_hosts = 1;
  std::map<LinkExchange, MeasuredLinks> exchanges = {};

  bool empty() const { return exchanges.empty(); }
  // Returns true if both calibrations were measured on the same machine and device and with the same numbers of ranks and
  // machines.
  bool has_key_of(const LinkCalibration& other) const {
    return host == other.host && device == other.device && num_ranks == other.num_ranks &&
           num_hosts == other.num_hosts;
  }
  friend bool operator==(const LinkCalibration&, const LinkCalibration&) = default;
};

inline constexpr int kLinkCalibrationSchemaVersion = 1;

// Formats a calibration as JSON with the version of the schema.
std::string link_calibration_json(const LinkCalibration& calibration);
// Parses a calibration. Errors: kBadData with `source` if the text is not the JSON text of a calibration, has another schema
// version, or contains an unknown name, a time that is not positive, or sizes that do not increase.
LinkCalibration parse_link_calibration(std::string_view text, const std::string& source);

}  // namespace plimsoll
