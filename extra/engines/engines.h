/* engines.h - products of tiles by libraries, for --engine; the public header of extra/engines. */
#ifndef DT_ENGINES_H
#define DT_ENGINES_H
#include "model/kernels/tiles/tiles.h"

void dt_extra_engines(void);
dt_status dt_products_check(const dt_tiles *t, const char *layer); /* dt_tile_backend.check */
#endif
