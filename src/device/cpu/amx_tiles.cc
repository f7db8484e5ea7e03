#include "device/cpu/amx_tiles.h"

namespace plimsoll {
namespace {

// The configuration that the instruction LDTILECFG loads (Intel's manual, volume 1, section 18.3).
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

}  // namespace

PLIMSOLL_AMX void configure_amx_tiles() {
  TileConfiguration configuration;
  for (int tile = 0; tile < 8; ++tile) {
    configuration.bytes_per_row[tile] = kTilePitch;
    configuration.rows[tile] = kTileRows;
  }
  memory_is_read(&configuration);
  _tile_loadconfig(&configuration);
}

PLIMSOLL_AMX void release_amx_tiles() {
  _tile_release();
}

}  // namespace plimsoll
