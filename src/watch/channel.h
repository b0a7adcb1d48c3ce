/* channel.h - what nodes tell each other of their ranks; private to src/watch.
 *
 * Datagrams, because nothing may wait for a host that is gone: each speaker sends its node's rows
 * to all ranks of the other nodes, twice a second, and whoever gets them puts them into its own
 * table. A message is believed if it carries the HMAC-SHA256 (RFC 2104) of a key that rank 0 has
 * drawn and MPI has carried, and if it is newer than the last one of its node. Times are sent as
 * durations: clocks of two machines have nothing in common. */
#ifndef DT_WATCH_CHANNEL_H
#define DT_WATCH_CHANNEL_H
#include "table.h"

enum { DT_CHANNEL_ROWS = 256, DT_CHANNEL_KEY = 32 };

typedef struct dt_channel dt_channel;
/* *ch is NULL where there is one node. Collective. */
dt_status dt_channel_open(dt_channel **ch, dt_comm *c) DT_MUST_CHECK;
void dt_channel_close(dt_channel *ch);
/* This node's ranks [first, end), as of `now`. Never waits. ch: NULL does nothing. Local. */
void dt_channel_send(dt_channel *ch, const dt_table *t, int first, int end, int64_t now);
/* All that has come. Never waits. ch: NULL does nothing. Local. */
void dt_channel_receive(dt_channel *ch, const dt_table *t, int64_t now);

/* ---- Messages; for tests, too ---------------------------------------------------------- */

enum { DT_MESSAGE_BYTES = 64 + DT_CHANNEL_ROWS * 104 };
/* The bytes of a message to out, and how many. sent: greater with each message of the node. */
size_t dt_message_write(const dt_table *t, int first, int end, int64_t sent, int64_t now,
                        const uint8_t key[DT_CHANNEL_KEY], uint8_t out[DT_MESSAGE_BYTES]);
/* Put its rows, all of them of ranks outside [first, end), into the table. *sent: of the last
 * message of each rank, [world], brought up to date. False: it is none, or not of this run, or
 * old; nothing is changed. */
bool dt_message_read(const uint8_t *message, size_t bytes, const uint8_t key[DT_CHANNEL_KEY],
                     const dt_table *t, int first, int end, int64_t *sent, int64_t now);
#endif
