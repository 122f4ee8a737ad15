/*
 * How functions are marked that use AVX-512, whatever the compiler's own target is; whoever calls
 * them has asked the processor before.
 *
 * GCC 12 misaligns vectors of 64 bytes on the stack that ASan puts aside to find uses after a
 * return (GCC bug 110027), and their aligned stores then fault: ASan leaves these functions out.
 */
#ifndef SAMPLER_VECTORS_H
#define SAMPLER_VECTORS_H

#define VECTORS_512(features) __attribute__((target(features), no_sanitize("address")))

#endif
