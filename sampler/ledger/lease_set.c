/* SPDX-License-Identifier: MIT */
/*
 * A lease is in up to five structures at once, all linked by numbers inside struct lease (4 bytes
 * instead of 8, and valid after an array moves):
 *
 *   chunks   memory, 64 leases each; never moved or given back before the end
 *   pairs    (worker, seq) -> number, for those that have a worker
 *   treap    by first position, all of them; their spans are disjoint, so "which holds position p"
 *            is "which begins last at or before p"
 *   heap     by deadline, those that are leased; lease->heap_at is the way back into it
 *   queue    those that wait, first come first served; and each worker's list
 *
 * Invariants: heap_at != LEASE_NONE exactly when leased; `waits` exactly when queued; never both. A
 * lease in `pairs` has a worker and is in that worker's list. Each function below keeps the
 * structures that its banner names; lease_set_remove() and lease_set_disown() take a lease out of
 * all of them.
 *
 * Nothing allocates after lease_set_reserve(), which makes room for one more in every structure: a
 * journaled draw can always be applied.
 */
#include "sampler/ledger/lease_set.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/keyed_hash.h"

#define CHUNK_SHIFT 6
#define CHUNK_LEASES (1u << CHUNK_SHIFT)
#define RUN_SEQS 4 /* adjacent in the hash table */

void lease_set_init(struct lease_set *set)
{
    *set =
        (struct lease_set){.free_first = LEASE_NONE, .root = LEASE_NONE, .queue = LEASE_LIST_EMPTY};
}

void lease_set_release(struct lease_set *set)
{
    for (size_t i = 0; i < set->chunk_count; i++)
        free(set->chunks[i]);
    free(set->chunks);
    free(set->heap);
    hash_table_release(&set->pairs);
    lease_set_init(set);
}

struct lease *lease_set_get(const struct lease_set *set, uint32_t number)
{
    return &set->chunks[number >> CHUNK_SHIFT][number & (CHUNK_LEASES - 1)];
}

/* ---- by (worker, seq) --------------------------------------------------- */

/* Seqs are usually counted up: four consecutive ones are adjacent, so a worker's next pull and the
 * ack of its last one mostly touch one cache line. Not more: a removal examines the leases of all
 * slots up to the next free one. The hash's high bits also contain the index among the four, so
 * that the table distinguishes them without reading their leases. */
static inline uint64_t hash_of_pair(uint32_t worker, int64_t seq)
{
    uint64_t run = (uint64_t)seq / RUN_SEQS, at = (uint64_t)seq % RUN_SEQS;
    return ((keyed_hash_numbers(run, worker) & ~(uint64_t)(RUN_SEQS - 1)) | at) ^ at << 62;
}

static inline uint64_t hash_of(const void *keys, uint32_t number)
{
    const struct lease *lease = lease_set_get(keys, number);
    return hash_of_pair(lease->worker, lease->seq);
}

struct lease_pair {
    const struct lease_set *set;
    uint32_t worker;
    int64_t seq;
};

static inline bool has_pair(const void *key, uint32_t number)
{
    const struct lease_pair *pair = key;
    const struct lease *lease = lease_set_get(pair->set, number);
    return lease->worker == pair->worker && lease->seq == pair->seq;
}

uint32_t lease_set_find(const struct lease_set *set, uint32_t worker, int64_t seq)
{
    struct lease_pair pair = {.set = set, .worker = worker, .seq = seq};
    return hash_table_find(&set->pairs, hash_of_pair(worker, seq), has_pair, &pair);
}

/* ---- by position: a treap ----------------------------------------------- */

/*
 * Priorities are keyed hashes of the positions; left: smaller first positions, right: larger ones;
 * a parent's priority is not below its children's. Positions are mostly added in ascending order,
 * which would degrade a plain tree to a list; hashed priorities make it about 2 ln(n) deep,
 * whatever the order and whoever chooses the positions, without rotations: adding splits the
 * subtree at the new priority's place, removing merges two. Both walk down once and write each link
 * once, through a pointer to the link.
 */

/* Splits `root` into leases that start before `first`, and the others. Each iteration attaches one
 * node at `*ret_left` or `*ret_right`, and continues with its other side. */
static void split(struct lease_set *set, uint32_t root, int64_t first, uint32_t *ret_left,
                  uint32_t *ret_right)
{
    while (root != LEASE_NONE) {
        struct lease *lease = lease_set_get(set, root);
        if (lease->first < first) {
            *ret_left = root;
            ret_left = &lease->right;
            root = lease->right;
        } else {
            *ret_right = root;
            ret_right = &lease->left;
            root = lease->left;
        }
    }
    *ret_left = *ret_right = LEASE_NONE;
}

/* Merges two trees, all of `left` before all of `right`; the higher priority becomes the root. */
static uint32_t merge(struct lease_set *set, uint32_t left, uint32_t right)
{
    uint32_t root;
    uint32_t *end = &root;
    while (left != LEASE_NONE && right != LEASE_NONE) {
        struct lease *before = lease_set_get(set, left);
        struct lease *after = lease_set_get(set, right);
        if (before->priority > after->priority) {
            *end = left;
            end = &before->right;
            left = before->right;
        } else {
            *end = right;
            end = &after->left;
            right = after->left;
        }
    }
    *end = left != LEASE_NONE ? left : right;
    return root;
}

static void tree_add(struct lease_set *set, uint32_t number)
{
    struct lease *lease = lease_set_get(set, number);
    uint32_t *end = &set->root;
    while (*end != LEASE_NONE) {
        struct lease *here = lease_set_get(set, *end);
        if (here->priority < lease->priority)
            break;
        end = lease->first < here->first ? &here->left : &here->right;
    }
    split(set, *end, lease->first, &lease->left, &lease->right);
    *end = number;
}

static void tree_remove(struct lease_set *set, uint32_t number)
{
    const struct lease *lease = lease_set_get(set, number);
    uint32_t *end = &set->root;
    while (*end != number) {
        struct lease *here = lease_set_get(set, *end);
        end = lease->first < here->first ? &here->left : &here->right;
    }
    *end = merge(set, lease->left, lease->right);
}

uint32_t lease_set_before(const struct lease_set *set, int64_t position)
{
    uint32_t found = LEASE_NONE;
    for (uint32_t number = set->root; number != LEASE_NONE;) {
        const struct lease *lease = lease_set_get(set, number);
        if (lease->first < position) {
            found = number;
            number = lease->right;
        } else {
            number = lease->left;
        }
    }
    return found;
}

uint32_t lease_set_at(const struct lease_set *set, int64_t position)
{
    uint32_t found = lease_set_before(set, position + 1);
    if (found == LEASE_NONE)
        return LEASE_NONE;
    const struct lease *lease = lease_set_get(set, found);
    return position < lease->first + lease->positions ? found : LEASE_NONE;
}

uint32_t lease_set_starting(const struct lease_set *set, int64_t first)
{
    uint32_t number = lease_set_at(set, first);
    return number != LEASE_NONE && lease_set_get(set, number)->first == first ? number : LEASE_NONE;
}

struct visiting {
    int64_t first; /* starting position */
    size_t left;   /* how many more */
    void (*visit)(void *context, const struct lease *lease);
    void *context;
};

static void visit_tree(const struct lease_set *set, uint32_t root, struct visiting *visiting)
{
    while (root != LEASE_NONE && visiting->left > 0) {
        const struct lease *lease = lease_set_get(set, root);
        root = lease->right;
        if (lease->first < visiting->first)
            continue;
        visit_tree(set, lease->left, visiting); /* as deep as the tree: about log leases */
        if (visiting->left == 0)
            break;
        visiting->left--;
        visiting->visit(visiting->context, lease);
    }
}

size_t lease_set_some(const struct lease_set *set, int64_t first, size_t most,
                      void (*visit)(void *context, const struct lease *lease), void *context)
{
    struct visiting visiting = {.first = first, .left = most, .visit = visit, .context = context};
    visit_tree(set, set->root, &visiting);
    return most - visiting.left;
}

void lease_set_each(const struct lease_set *set,
                    void (*visit)(void *context, const struct lease *lease), void *context)
{
    (void)lease_set_some(set, INT64_MIN, SIZE_MAX, visit, context);
}

/* ---- by deadline: a binary heap ----------------------------------------- */

/* heap[0] has the earliest deadline; heap[i]'s is not after heap[2 i + 1]'s and heap[2 i + 2]'s.
 * New deadlines are mostly the latest: settling one usually examines only its parent. */

static void heap_put(struct lease_set *set, size_t at, uint32_t number)
{
    set->heap[at] = number;
    lease_set_get(set, number)->heap_at = (uint32_t)at;
}

static int64_t deadline_at(const struct lease_set *set, size_t at)
{
    return lease_set_get(set, set->heap[at])->deadline_ms;
}

/* Places `number`, starting from the free place `at`: up while its parent is later, then down while
 * a child is earlier. At most one of the two loops moves anything. */
static void heap_settle(struct lease_set *set, size_t at, uint32_t number)
{
    int64_t deadline_ms = lease_set_get(set, number)->deadline_ms;
    while (at > 0 && deadline_at(set, (at - 1) / 2) > deadline_ms) {
        heap_put(set, at, set->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= set->heap_count)
            break;
        if (child + 1 < set->heap_count && deadline_at(set, child + 1) < deadline_at(set, child))
            child++;
        if (deadline_at(set, child) >= deadline_ms)
            break;
        heap_put(set, at, set->heap[child]);
        at = child;
    }
    heap_put(set, at, number);
}

static void heap_remove(struct lease_set *set, uint32_t number)
{
    struct lease *lease = lease_set_get(set, number);
    size_t at = lease->heap_at;
    if (at == LEASE_NONE)
        return;
    lease->heap_at = LEASE_NONE;
    uint32_t last = set->heap[--set->heap_count];
    if (last != number)
        heap_settle(set, at, last);
}

uint32_t lease_set_earliest(const struct lease_set *set)
{
    return set->heap_count > 0 ? set->heap[0] : LEASE_NONE;
}

/* ---- the queue, and each worker's list ---------------------------------- */

static struct lease_link *link_of(const struct lease_set *set, uint32_t number,
                                  enum lease_list_kind kind)
{
    return &lease_set_get(set, number)->links[kind];
}

static void list_append(struct lease_set *set, struct lease_list *list, uint32_t number,
                        enum lease_list_kind kind)
{
    *link_of(set, number, kind) = (struct lease_link){list->last, LEASE_NONE};
    *(list->last == LEASE_NONE ? &list->first : &link_of(set, list->last, kind)->after) = number;
    list->last = number;
}

static void list_remove(struct lease_set *set, struct lease_list *list, uint32_t number,
                        enum lease_list_kind kind)
{
    struct lease_link link = *link_of(set, number, kind);
    *(link.before == LEASE_NONE ? &list->first : &link_of(set, link.before, kind)->after) =
        link.after;
    *(link.after == LEASE_NONE ? &list->last : &link_of(set, link.after, kind)->before) =
        link.before;
}

static void queue_remove(struct lease_set *set, uint32_t number)
{
    struct lease *lease = lease_set_get(set, number);
    if (lease->waits)
        list_remove(set, &set->queue, number, LEASE_QUEUE);
    lease->waits = false;
}

void lease_set_start(struct lease_set *set, uint32_t number, int64_t leased_ms, int64_t deadline_ms)
{
    struct lease *lease = lease_set_get(set, number);
    queue_remove(set, number);
    lease->leased_ms = leased_ms;
    lease->deadline_ms = deadline_ms;
    if (lease->heap_at == LEASE_NONE)
        heap_settle(set, set->heap_count++, number);
    else
        heap_settle(set, lease->heap_at, number);
}

uint32_t lease_set_waiting(const struct lease_set *set)
{
    return set->queue.first;
}

void lease_set_wait(struct lease_set *set, uint32_t number)
{
    struct lease *lease = lease_set_get(set, number);
    heap_remove(set, number);
    queue_remove(set, number);
    lease->waits = true;
    list_append(set, &set->queue, number, LEASE_QUEUE);
}

void lease_set_assign(struct lease_set *set, uint32_t number, uint32_t worker, int64_t seq,
                      struct lease_list *mine)
{
    struct lease *lease = lease_set_get(set, number);
    queue_remove(set, number);
    lease->worker = worker;
    lease->seq = seq;
    hash_table_put(&set->pairs, hash_of_pair(worker, seq), number);
    set->owned++;
    list_append(set, mine, number, LEASE_WORKER);
}

void lease_set_disown(struct lease_set *set, uint32_t number, struct lease_list *mine)
{
    struct lease *lease = lease_set_get(set, number);
    hash_table_remove(&set->pairs, number, hash_of, set);
    lease->worker = WORKER_NONE;
    set->owned--;
    list_remove(set, mine, number, LEASE_WORKER);
}

/* ---- all of it ---------------------------------------------------------- */

static enum error add_chunk(struct lease_set *set)
{
    void *chunks = set->chunks;
    enum error error = array_grow(&chunks, &set->chunk_capacity, set->chunk_count + 1,
                                  sizeof(struct lease *), "the leases of a stream");
    set->chunks = chunks;
    if (error)
        return error;
    struct lease *chunk = array_new(CHUNK_LEASES, sizeof(*chunk), "the leases of a stream");
    if (!chunk)
        return ERROR_MEMORY;
    set->chunks[set->chunk_count++] = chunk;
    return OK;
}

enum error lease_set_reserve(struct lease_set *set)
{
    enum error error = OK;
    if (set->count >= LEASE_NONE - 1)
        return error_set(ERROR_MEMORY, "more than %u batches of a stream are leased",
                         LEASE_NONE - 1);
    if (set->free_first == LEASE_NONE && set->used >> CHUNK_SHIFT == set->chunk_count)
        error = add_chunk(set);
    /* A number is below the maximum number of leases so far, for which there was room. */
    if (!error)
        error =
            hash_table_reserve(&set->pairs, set->count + 1, hash_of, set, "the leases of a stream");
    void *heap = set->heap;
    if (!error)
        error = array_grow(&heap, &set->heap_capacity, set->count + 1, sizeof(*set->heap),
                           "the leases of a stream");
    set->heap = heap;
    return error;
}

uint32_t lease_set_add(struct lease_set *set, int64_t first, int64_t positions, int64_t units,
                       uint32_t attempt)
{
    uint32_t number = set->free_first;
    if (number == LEASE_NONE)
        number = set->used++;
    else
        set->free_first = lease_set_get(set, number)->right;
    *lease_set_get(set, number) = (struct lease){
        .first = first,
        .positions = positions,
        .units = units,
        .leased_ms = -1,
        .worker = WORKER_NONE,
        .attempt = attempt,
        .heap_at = LEASE_NONE,
        .priority = (uint32_t)(keyed_hash_numbers((uint64_t)first, 0) >> 33),
    };
    tree_add(set, number);
    set->count++;
    return number;
}

void lease_set_remove(struct lease_set *set, uint32_t number)
{
    struct lease *lease = lease_set_get(set, number);
    heap_remove(set, number);
    queue_remove(set, number);
    tree_remove(set, number);
    lease->right = set->free_first;
    set->free_first = number;
    set->count--;
}
