/* SPDX-License-Identifier: MIT */
/* Covers trainer/cluster/cluster_flags. */
#include "tests/unit/cluster_unit.h"

#include "trainer/cluster/cluster_flags.h"

#define GIVEN .task_index_given = true, .task_index
#define D1 \
    .ps_hosts = "localhost:2221,localhost:2222", .worker_hosts = "localhost:2223,localhost:2224"
#define D1_TAIL                                                                             \
    " worker localhost:2223 localhost:2224; ps localhost:2221 localhost:2222; trainers 2, " \
    "server localhost:2221 localhost:2222"

static void test_the_classic_programs_flags(void **state)
{
    static const struct {
        struct cluster_flags flags;
        const char *shown;
    } cases[] = {
        {{.ps_hosts = NULL}, "worker 0 chief alone: trainers 1"},
        {{"", "", "", 0, true}, "worker 0 chief alone: trainers 1"},
        {{D1, .job_name = "ps", GIVEN = 1}, "ps 1 serves:" D1_TAIL},
        {{D1, .job_name = "worker", GIVEN = 0}, "worker 0 chief:" D1_TAIL},
        {{D1, .job_name = "worker", GIVEN = 1}, "worker 1:" D1_TAIL},
        {{D1, .job_name = "evaluator"}, "evaluator 0:" D1_TAIL},
        {{.job_name = "evaluator"}, "evaluator 0 sparse: trainers 0"},
        /* the only one of its job needs no index */
        {{.ps_hosts = "p:1", .worker_hosts = "a:1,b:1", .job_name = "ps"},
         "ps 0 serves: worker a:1 b:1; ps p:1; trainers 2, server p:1"},
        /* workers without ps, IPv6 */
        {{.worker_hosts = "[fd00::1]:1,[fe80::1%eth0]:1", .job_name = "worker", GIVEN = 0},
         "worker 0 chief serves: worker [fd00::1]:1 [fe80::1%eth0]:1; trainers 2, server "
         "[fd00::1]:1"},
        {{.worker_hosts = "a:1", .job_name = "worker", GIVEN = 0},
         "worker 0 chief alone: worker a:1; trainers 1"},
        /* workers that nobody lists */
        {{.ps_hosts = "p:1,p:2", .job_name = "worker", GIVEN = 9},
         "worker 9 sparse: ps p:1 p:2; trainers 0, server p:1 p:2"},
        {{.ps_hosts = "p:1,p:2", .job_name = "ps", GIVEN = 1},
         "ps 1 serves sparse: ps p:1 p:2; trainers 0, server p:1 p:2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster cluster;
        assert_ok(cluster_flags_parse(&cases[i].flags, &cluster));
        assert_string_equal(cluster_show(&cluster), cases[i].shown);
        cluster_release(&cluster);
    }
}

static void test_what_does_not_fit_is_refused(void **state)
{
    static const struct {
        struct cluster_flags flags;
        const char *message;
    } cases[] = {
        {{.ps_hosts = "p:1"}, "Must specify an explicit `job_name`: --ps-hosts lists a cluster"},
        {{.worker_hosts = "a:1", .job_name = ""},
         "Must specify an explicit `job_name`: --worker-hosts lists a cluster"},
        {{D1, .job_name = "worker"},
         "Must specify an explicit `task_index`: --task-index N says which worker"},
        {{.ps_hosts = "p:1", .job_name = "worker"}, "Must specify an explicit `task_index`"},
        {{D1, .job_name = "worker", GIVEN = 2},
         "2 is not a valid task_id for task_type worker in the cluster_spec: those in --ps-hosts "
         "and --worker-hosts go from 0 to 1 (one more worker than are listed leaves the list"},
        {{D1, .job_name = "ps", GIVEN = 2}, "2 is not a valid task_id for task_type ps"},
        {{.worker_hosts = "a:1,b:1", .job_name = "ps", GIVEN = 0},
         "ps is not a valid task_type in the cluster_spec"},
        {{D1, .job_name = "evaluator", GIVEN = 1}, "there can only be one `evaluator` task"},
        {{D1, .job_name = "chief", GIVEN = 0},
         "--job-name is \"chief\", must be ps, worker or evaluator"},
        {{.job_name = "worker", GIVEN = 0}, "--job-name is worker, but there is no cluster"},
        {{.job_name = "ps", GIVEN = 0}, "--job-name is ps, but there is no cluster"},
        {{GIVEN = 3}, "--task-index is 3, but there is no cluster"},
        {{GIVEN = 1}, "TF_CONFIG names its own task: leave --task-index out beside it"},
        {{.ps_hosts = "p:1,", .job_name = "ps", GIVEN = 0},
         "--ps-hosts: ps 1 is \"\", must be HOST:PORT"},
        {{.worker_hosts = "a:1, b:1", .job_name = "worker", GIVEN = 0},
         "--worker-hosts: worker 1 is \" b:1\", must be HOST:PORT"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster cluster;
        assert_fails(cluster_flags_parse(&cases[i].flags, &cluster), ERROR_USAGE, cases[i].message);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_classic_programs_flags),
    cmocka_unit_test(test_what_does_not_fit_is_refused),
};

UNIT_MAIN(tests)
