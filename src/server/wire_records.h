/* The fields of each kind of record, for wire.c. */
#ifndef SLUICE_SERVER_WIRE_RECORDS_H
#define SLUICE_SERVER_WIRE_RECORDS_H

#include "server/wire.h"
#include "server/wire_codec.h"

/* Writes or reads the fields of record->kind, in their order. */
void wire_record_visit(struct wire_codec *codec, struct wire_record *record);

#endif
