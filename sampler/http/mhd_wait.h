/*
 * How libmicrohttpd's threads wait for requests: its epoll_wait(), which the dynamic linker
 * resolves to the one of mhd_wait.c (as MHD_queue_response() to the one of mhd_errors.h).
 *
 * It never fills the array: 0.9.75 asks again when it is full, before it looks at what it has, and
 * sleeps on 128 requests that came together when nobody else sends any.
 *
 * And a thread under load looks a few times more before it sleeps, giving its processor to whoever
 * wants it in between. To be woken costs it and its client several microseconds, the more so in a
 * virtual machine. Where requests come one by one it sleeps at once.
 */
#ifndef SAMPLER_HTTP_MHD_WAIT_H
#define SAMPLER_HTTP_MHD_WAIT_H

/* Before a daemon is started: how many times a thread under load looks, each about 1 us. */
void mhd_wait_install(int looks);

#endif
