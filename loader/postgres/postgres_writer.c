/* SPDX-License-Identifier: MIT */
/*
 * Writes a table on a PostgreSQL server within one transaction: nobody sees it before it is
 * published, and a failure before leaves nothing. Rows are sent by binary COPY, in bounded memory.
 *
 * The table: id bigint PRIMARY KEY, label (bigint, or text) if there are labels, weight double
 * precision and "group" text if the source named them, features bytea (F bytes, or F little-endian
 * 32-bit floats or integers); its comment is that of postgres_facts.h.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/text.h"
#include "loader/postgres/postgres_connection.h"
#include "loader/postgres/postgres_facts.h"
#include "loader/store/store_kinds.h"
#include "loader/store/store_writer.h"

#define PIECE_BYTES ((size_t)256 << 10)     /* sent when it is full */
#define PIECE_LIMIT_BYTES ((size_t)1 << 30) /* the longest value that PostgreSQL takes */
#define SQL_LIMIT_BYTES ((size_t)128 << 20)
#define ROW_IN_PAGE_BYTES 7000 /* longer values are stored out of line, uncompressed */
#define NAME_BYTES 63          /* PostgreSQL cuts off the rest: another table's name perhaps */

struct postgres_writer {
    struct store_writer writer; /* first */
    struct postgres_place place;
    char *shown;    /* owned; "postgresql://..." */
    char *name;     /* owned; quoted, with its schema */
    char *aside;    /* owned; the table's name until it is complete */
    char *relation; /* owned; the last part of `name` */
    char *there;    /* owned; the existing table of this name; NULL: none */
    char *identity; /* owned; of the database; NULL: not known */
    bool replace;
    PGconn *connection;
    struct buffer piece;
};

static enum error run_sql(struct postgres_writer *writer, struct buffer *sql, int wanted)
{
    char *text = NULL;
    enum error error = buffer_take(sql, &text);
    if (!error)
        error = postgres_run(&writer->place, writer->connection, text, wanted, NULL);
    free(text);
    return error;
}

/* ---- opening ------------------------------------------------------------ */

static enum error quote(struct postgres_writer *writer, const char *name, size_t length,
                        char **ret_quoted)
{
    if (length > NAME_BYTES)
        return error_set(ERROR_USAGE,
                         "%s: the name %.*s has %zu bytes; PostgreSQL takes at most %d",
                         writer->shown, (int)length, name, length, NAME_BYTES);
    char *quoted = PQescapeIdentifier(writer->connection, name, length);
    if (!quoted)
        return error_set(ERROR_USAGE, "%s: not a table name: %.300s", writer->shown,
                         PQerrorMessage(writer->connection));
    *ret_quoted = strdup(quoted);
    PQfreemem(quoted);
    return *ret_quoted ? OK : error_set_memory(length, "a table's name");
}

/* The schema in which an unqualified table would be created. */
static enum error find_schema(struct postgres_writer *writer, char **ret_quoted)
{
    PGresult *result = NULL;
    enum error error =
        postgres_run(&writer->place, writer->connection, "SELECT quote_ident(current_schema())",
                     PGRES_TUPLES_OK, &result);
    if (!error && PQgetisnull(result, 0, 0))
        error = error_set(ERROR_USAGE, "%s: no schema of search_path is there; table=SCHEMA.NAME",
                          writer->shown);
    if (!error) {
        *ret_quoted = strdup(PQgetvalue(result, 0, 0));
        error = *ret_quoted ? OK : error_set_memory(64, "a schema's name");
    }
    PQclear(result);
    return error;
}

static enum error name_tables(struct postgres_writer *writer, const char *table)
{
    const char *dot = strchr(table, '.');
    const char *relation = dot ? dot + 1 : table;
    char *schema = NULL;
    uint64_t chance = (uint64_t)clock_now_ns(); /* containers share process numbers */
    (void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
    enum error error =
        dot ? quote(writer, table, (size_t)(dot - table), &schema) : find_schema(writer, &schema);
    if (!error)
        error = quote(writer, relation, strlen(relation), &writer->relation);
    if (!error && (asprintf(&writer->name, "%s.%s", schema, writer->relation) < 0 ||
                   asprintf(&writer->aside, "%s.tombola_import_%016" PRIx64, schema, chance) < 0))
        error = error_set_memory(strlen(table), "a table's name");
    free(schema);
    return error;
}

static enum error find_table(struct postgres_writer *writer)
{
    struct buffer sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    char *literal = PQescapeLiteral(writer->connection, writer->name, strlen(writer->name));
    PGresult *result = NULL;
    enum error error =
        literal ? buffer_print(&sql,
                               "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname),"
                               " c.relkind IN ('r', 'p')"
                               " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                               " WHERE c.oid = to_regclass(%s)",
                               literal)
                : error_set_memory(64, "a table's name");
    if (!error)
        error =
            postgres_run(&writer->place, writer->connection, sql.data, PGRES_TUPLES_OK, &result);
    if (!error && PQntuples(result) > 0) {
        writer->there = strdup(PQgetvalue(result, 0, 0));
        error = writer->there ? OK : error_set_memory(64, "a table's name");
        if (!error && strcmp(PQgetvalue(result, 0, 1), "t") != 0)
            error = error_set(ERROR_CONFLICT,
                              "%s: %s is a view, or another kind of table that import does not "
                              "replace; name another one",
                              writer->shown, writer->there);
    }
    PQclear(result);
    PQfreemem(literal);
    buffer_release(&sql);
    return error;
}

static void postgres_writer_close(struct store_writer *base)
{
    struct postgres_writer *writer = (struct postgres_writer *)base;
    PQfinish(writer->connection);
    postgres_place_release(&writer->place);
    buffer_release(&writer->piece);
    free(writer->shown);
    free(writer->identity);
    free(writer->name);
    free(writer->aside);
    free(writer->relation);
    free(writer->there);
    free(writer);
}

/* `table`: NAME or SCHEMA.NAME. */
static enum error postgres_writer_open(struct uri *uri, const char *table, bool replace,
                                       struct store_writer **ret_writer)
{
    struct postgres_writer *writer = array_new(1, sizeof(*writer), "writing a PostgreSQL table");
    if (!writer)
        return ERROR_MEMORY;
    writer->writer.table = table;
    writer->replace = replace;
    writer->piece = (struct buffer)BUFFER_INIT(PIECE_LIMIT_BYTES);
    enum error error = postgres_place_init(&writer->place, uri);
    if (!error)
        error = uri_query_finish(&uri->query);
    if (!error && asprintf(&writer->shown, "postgresql:%s", writer->place.shown) < 0)
        error = error_set_memory(64, "a server's name");
    if (!error)
        error = postgres_connect(&writer->place, &writer->connection);
    if (!error)
        error = postgres_identify(&writer->place, writer->connection, &writer->identity);
    if (!error)
        error = name_tables(writer, table);
    if (!error)
        error = find_table(writer);
    if (!error && writer->there && !replace)
        error = error_set(ERROR_CONFLICT,
                          "%s has a table %s; name another one, or replace it with --force",
                          writer->shown, writer->name);
    if (error) {
        postgres_writer_close(&writer->writer);
        return error;
    }
    writer->writer.place = writer->shown;
    writer->writer.replaces = writer->there;
    writer->writer.database = writer->identity;
    *ret_writer = &writer->writer;
    return OK;
}

/* ---- rows --------------------------------------------------------------- */

static void add_big_endian(struct buffer *buffer, uint64_t number, size_t bytes)
{
    uint8_t text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (uint8_t)(number >> (8 * (bytes - 1 - i)));
    buffer_add(buffer, text, bytes);
}

static void add_integer(struct buffer *buffer, int64_t number)
{
    add_big_endian(buffer, 8, 4);
    add_big_endian(buffer, (uint64_t)number, 8);
}

static void add_real(struct buffer *buffer, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    add_big_endian(buffer, 8, 4);
    add_big_endian(buffer, bits, 8);
}

static void add_bytes(struct buffer *buffer, const void *bytes, size_t length)
{
    add_big_endian(buffer, length, 4);
    buffer_add(buffer, bytes, length);
}

static bool has_label(const struct store_info *info)
{
    return info->label_kind != LABEL_NONE;
}

static bool varies(const struct store_info *info)
{
    return info->lengths != LENGTHS_ALIKE;
}

/* For the longest row. */
static size_t row_bytes(const struct store_info *info)
{
    return (varies(info) ? info->longest : info->features) * element_bytes(info->element);
}

static bool has_features(const struct store_info *info)
{
    return row_bytes(info) > 0 || varies(info);
}

static enum error send_piece(struct postgres_writer *writer)
{
    struct buffer *piece = &writer->piece;
    if (piece->error || piece->length > INT32_MAX)
        return error_set_memory(piece->length, "rows on their way to a server");
    writer->writer.bytes += piece->length;
    enum error error =
        postgres_copy_in(&writer->place, writer->connection, piece->data, piece->length);
    buffer_clear(piece);
    return error;
}

static const char begin_sql[] =
    "BEGIN; SET LOCAL synchronous_commit = on; " POSTGRES_NO_TIMEOUTS "; "
    "CREATE TABLE %s (id bigint NOT NULL%s%s%s%s)";

static enum error postgres_writer_begin(struct store_writer *base)
{
    static const uint8_t head[19] = "PGCOPY\n\377\r\n"; /* no flags, no header extension */
    struct postgres_writer *writer = (struct postgres_writer *)base;
    const struct store_info *info = base->info;
    struct buffer sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    const char *label = info->label_kind == LABEL_INTEGER ? "bigint" : "text";
    buffer_print(&sql, begin_sql, writer->aside, has_label(info) ? ", label " : "",
                 has_label(info) ? label : "",
                 info->weight_column ? ", weight double precision NOT NULL" : "",
                 info->group_column ? ", \"group\" text NOT NULL" : "");
    if (has_label(info))
        buffer_print(&sql, "; ALTER TABLE %s ALTER label SET NOT NULL", writer->aside);
    if (has_features(info))
        buffer_print(&sql,
                     "; ALTER TABLE %s ADD features bytea NOT NULL, ALTER features SET STORAGE %s",
                     writer->aside, row_bytes(info) < ROW_IN_PAGE_BYTES ? "PLAIN" : "EXTERNAL");
    enum error error = run_sql(writer, &sql, PGRES_COMMAND_OK);
    if (error)
        return error;
    buffer_print(&sql, "COPY %s FROM STDIN (FORMAT binary)", writer->aside);
    error = run_sql(writer, &sql, PGRES_COPY_IN);
    buffer_add(&writer->piece, head, sizeof(head));
    return error;
}

static enum error add_label(struct postgres_writer *writer, const struct text *label, int64_t id)
{
    int64_t number = 0;
    if (writer->writer.info->label_kind != LABEL_INTEGER)
        add_bytes(&writer->piece, label->data, label->length);
    else if (text_parse_integer(label->data, label->length, INT64_MIN, INT64_MAX, &number))
        add_integer(&writer->piece, number);
    else
        return error_set(ERROR_INPUT, "%s, id %" PRId64 ": the label %.*s does not fit a bigint",
                         writer->writer.info->uri, id,
                         (int)(label->length < 40 ? label->length : 40), label->data);
    return OK;
}

static enum error add_row(struct postgres_writer *writer, const struct store_block *block, size_t i,
                          const uint8_t *features, size_t bytes)
{
    const struct store_info *info = writer->writer.info;
    struct buffer *piece = &writer->piece;
    enum error error = OK;
    add_big_endian(piece,
                   1u + has_label(info) + !!info->weight_column + !!info->group_column +
                       has_features(info),
                   2);
    add_integer(piece, block->ids[i]);
    if (has_label(info))
        error = add_label(writer, &block->labels[i], block->ids[i]);
    if (info->weight_column)
        add_real(piece, block->weights[i]);
    if (info->group_column)
        add_bytes(piece, block->groups[i].data, block->groups[i].length);
    if (has_features(info))
        add_bytes(piece, features, bytes);
    return error;
}

static enum error postgres_writer_add(struct store_writer *base, const struct store_block *block)
{
    struct postgres_writer *writer = (struct postgres_writer *)base;
    const uint8_t *features = block->features;
    enum error error = OK;
    for (size_t i = 0; i < block->rows && !error; i++) {
        size_t bytes = store_block_row_bytes(block, i, base->info);
        error = add_row(writer, block, i, features, bytes);
        features += features ? bytes : 0;
        if (!error && writer->piece.length >= PIECE_BYTES)
            error = send_piece(writer);
    }
    return error;
}

/* ---- the end ------------------------------------------------------------ */

static enum error end_copy(struct postgres_writer *writer)
{
    add_big_endian(&writer->piece, UINT16_MAX, 2);
    enum error error = send_piece(writer);
    int64_t rows = -1;
    if (!error)
        error = postgres_copy_end(&writer->place, writer->connection, &rows);
    if (!error && rows != writer->writer.rows)
        error = error_set(ERROR_NETWORK, "%s took %" PRId64 " rows of %" PRId64, writer->shown,
                          rows, writer->writer.rows);
    return error;
}

/* The primary key comes last: building it over all rows is faster; named after the table. */
static enum error complete(struct postgres_writer *writer)
{
    struct buffer facts = BUFFER_INIT(SQL_LIMIT_BYTES), sql = BUFFER_INIT(SQL_LIMIT_BYTES);
    enum error error =
        postgres_facts_write(writer->writer.info, writer->writer.digest_text, &facts);
    char *comment = error ? NULL : PQescapeLiteral(writer->connection, facts.data, facts.length);
    if (!error && !comment)
        error = error_set_memory(facts.length, "a table's comment");
    if (!error && writer->replace)
        buffer_print(&sql, "DROP TABLE IF EXISTS %s; ", writer->name);
    if (!error)
        buffer_print(&sql,
                     "ALTER TABLE %s RENAME TO %s; ALTER TABLE %s ADD PRIMARY KEY (id); "
                     "COMMENT ON TABLE %s IS %s",
                     writer->aside, writer->relation, writer->name, writer->name, comment);
    if (!error)
        error = run_sql(writer, &sql, PGRES_COMMAND_OK);
    PQfreemem(comment);
    buffer_release(&facts);
    buffer_release(&sql);
    return error;
}

static enum error postgres_writer_finish(struct store_writer *base, const char **ret_path)
{
    struct postgres_writer *writer = (struct postgres_writer *)base;
    enum error error = end_copy(writer);
    (void)ret_path;
    return error ? error : complete(writer);
}

static enum error postgres_writer_publish(struct store_writer *base)
{
    struct postgres_writer *writer = (struct postgres_writer *)base;
    enum error error =
        postgres_run(&writer->place, writer->connection, "COMMIT", PGRES_COMMAND_OK, NULL);
    if (error == ERROR_NETWORK || error == ERROR_TIMEOUT || error == ERROR_CANCELLED)
        error = error_prefix(error, "the table %s may be there or not: ", writer->name);
    return error;
}

const struct store_writer_ops store_writer_postgres_ops = {.store = &store_postgres_ops,
                                                           .is_server = true,
                                                           .has_table = true,
                                                           .open = postgres_writer_open,
                                                           .begin = postgres_writer_begin,
                                                           .add = postgres_writer_add,
                                                           .finish = postgres_writer_finish,
                                                           .publish = postgres_writer_publish,
                                                           .close = postgres_writer_close};
