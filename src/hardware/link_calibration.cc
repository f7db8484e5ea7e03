#include "hardware/link_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "hardware/measured_json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kExchanges{LinkExchange::kGloo, LinkExchange::kMappedMemory, LinkExchange::kNccl,
                                LinkExchange::kNcclWithoutP2p};

LinkPoint parse_point(const MeasuredJson& json, const nlohmann::json& object) {
  if (!object.is_object()) json.fail("each entry of a curve must be a JSON object, but one is not");
  return {.bytes = json.get<int64_t>(object, "bytes"),
          .median_ms = json.get<double>(object, "median_ms"),
          .spread = json.get<double>(object, "spread"),
          .num_runs = json.get<int64_t>(object, "runs")};
}

LinkCurve parse_curve(const MeasuredJson& json, const nlohmann::json& list, const std::string& name) {
  if (!list.is_array() || list.empty())
    json.fail(fmt::format("the curve of {} must be a list with at least one entry, but is not", name));
  LinkCurve curve;
  for (const nlohmann::json& entry : list) {
    const LinkPoint point = parse_point(json, entry);
    const int64_t before = curve.empty() ? 0 : curve.back().bytes;
    if (point.bytes <= before) {
      json.fail(fmt::format("the sizes in the curve of {} must increase, but {} bytes follow {} bytes", name,
                            point.bytes, before));
    }
    if (!(point.median_ms > 0) || !std::isfinite(point.median_ms)) {
      json.fail(
          fmt::format("the time of {} with {} bytes must be a positive number of milliseconds, but is {}",
                      name, point.bytes, point.median_ms));
    }
    curve.push_back(point);
  }
  return curve;
}

}  // namespace

std::string_view collective_name(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
  }
  return "?";
}

std::string_view link_exchange_name(LinkExchange exchange) {
  switch (exchange) {
    case LinkExchange::kGloo:
      return "gloo";
    case LinkExchange::kMappedMemory:
      return "mapped_memory";
    case LinkExchange::kNccl:
      return "nccl";
    case LinkExchange::kNcclWithoutP2p:
      return "nccl_without_p2p";
  }
  return "?";
}

std::string_view describe_link_exchange(LinkExchange exchange) {
  switch (exchange) {
    case LinkExchange::kGloo:
      return "Gloo";
    case LinkExchange::kMappedMemory:
      return "mapped memory";
    case LinkExchange::kNccl:
      return "NCCL";
    case LinkExchange::kNcclWithoutP2p:
      return "NCCL without P2P";
  }
  return "?";
}

double bus_factor(Collective collective, int num_ranks) {
  PLIMSOLL_CHECK(num_ranks >= 1, "the number of ranks must be at least 1, but is {}", num_ranks);
  const double share = static_cast<double>(num_ranks - 1) / num_ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * share;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return share;
    case Collective::kBroadcast:
      break;
  }
  return 1;
}

double interpolated_ms(const LinkCurve& curve, double bytes) {
  PLIMSOLL_CHECK(!curve.empty(), "the measured curve must have at least one entry");
  const auto above = std::ranges::find_if(
      curve, [&](const LinkPoint& point) { return static_cast<double>(point.bytes) >= bytes; });
  if (above == curve.begin()) return curve.front().median_ms;
  if (above == curve.end()) return curve.back().median_ms * bytes / static_cast<double>(curve.back().bytes);
  const LinkPoint& before = *std::prev(above);
  const double part =
      (bytes - static_cast<double>(before.bytes)) / static_cast<double>(above->bytes - before.bytes);
  return before.median_ms + part * (above->median_ms - before.median_ms);
}

std::optional<double> exchange_ms(const MeasuredLinks& links, Collective collective, double sent_bytes) {
  if (links.empty()) return std::nullopt;
  for (const Collective measured : {collective, Collective::kAllReduce}) {
    const auto curve = links.curves.find(measured);
    const double factor = bus_factor(measured, links.num_ranks);
    if (curve == links.curves.end() || curve->second.empty() || factor == 0) continue;
    return interpolated_ms(curve->second, sent_bytes / factor);
  }
  return std::nullopt;
}

LinkRate link_rate(const LinkCurve& curve, Collective collective, int num_ranks) {
  PLIMSOLL_CHECK(!curve.empty(), "the measured curve must have at least one entry");
  const LinkPoint& largest = curve.back();
  return {.latency_ms = curve.front().median_ms,
          .gb_per_s = bus_factor(collective, num_ranks) * static_cast<double>(largest.bytes) /
                      (1e6 * largest.median_ms)};
}

std::string link_calibration_json(const LinkCalibration& calibration) {
  Json exchanges = Json::object();
  for (const auto& [exchange, links] : calibration.exchanges) {
    Json curves = Json::object();
    for (const auto& [collective, curve] : links.curves) {
      Json& points = curves[std::string(collective_name(collective))] = Json::array();
      for (const LinkPoint& point : curve) {
        points.push_back({{"bytes", point.bytes},
                          {"median_ms", point.median_ms},
                          {"spread", point.spread},
                          {"runs", point.num_runs}});
      }
    }
    exchanges[std::string(link_exchange_name(exchange))] = {{"date", links.date},
                                                            {"curves", std::move(curves)}};
  }
  const Json json{{"schema_version", kLinkCalibrationSchemaVersion},
                  {"host", calibration.host},
                  {"device", calibration.device},
                  {"num_ranks", calibration.num_ranks},
                  {"num_hosts", calibration.num_hosts},
                  {"exchanges", std::move(exchanges)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

LinkCalibration parse_link_calibration(std::string_view text, const std::string& source) {
  const MeasuredJson json(text, source,
                          {.name = "calibration of links",
                           .schema_version = kLinkCalibrationSchemaVersion,
                           .remedy = "plimsoll bench --links writes one"});
  LinkCalibration calibration{.host = json.get<std::string>(json.top(), "host"),
                              .device = json.get<std::string>(json.top(), "device"),
                              .num_ranks = json.get<int>(json.top(), "num_ranks"),
                              .num_hosts = json.get<int>(json.top(), "num_hosts")};
  if (calibration.num_ranks < 2)
    json.fail(fmt::format("'num_ranks' must be at least 2, but is {}", calibration.num_ranks));
  const nlohmann::json& exchanges = json.object_at(json.top(), "exchanges");
  for (auto it = exchanges.begin(); it != exchanges.end(); ++it) {
    const auto* const exchange = std::ranges::find(kExchanges, it.key(), link_exchange_name);
    if (exchange == kExchanges.end())
      json.fail(fmt::format(
          "'exchanges' has the unknown key '{}'; measure the links again (plimsoll bench --links)",
          it.key()));
    const nlohmann::json& entry = json.object_at(exchanges, it.key());
    MeasuredLinks& links = calibration.exchanges[*exchange];
    links.exchange = *exchange;
    links.num_ranks = calibration.num_ranks;
    links.date = json.get<std::string>(entry, "date");
    const nlohmann::json& curves = json.object_at(entry, "curves");
    for (auto curve = curves.begin(); curve != curves.end(); ++curve) {
      const auto* const collective = std::ranges::find(kCollectives, curve.key(), collective_name);
      if (collective == kCollectives.end())
        json.fail(fmt::format("'{}' is not the name of a collective operation", curve.key()));
      links.curves[*collective] = parse_curve(json, curve.value(), curve.key());
    }
  }
  return calibration;
}

}  // namespace plimsoll
