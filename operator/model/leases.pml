/* One job: it is leased, run, lost, leased again and answered, while leaders and workers are frozen, cut off and killed.
 *
 * The promises:
 *   - a token is given out once, and started once;
 *   - at most one result is accepted, and it carries the highest token that was given out;
 *   - what a worker says after its lease was counted as lost is not even stored.
 *
 * Leaders come one after the other, each under the next epoch, and plan only while the epoch is theirs. Each has three
 * writers side by side: of the run, and of the two mailboxes. What a writer has decided lands at any later time, or
 * never, and what came of it is seen at any later time, or never: a slow network, a lost answer, a leader that was
 * frozen between deciding and sending, and one that has died, all in one. What a leader goes by is its cache, which
 * follows what is stored with any delay. A worker may be given up at any time, as silence can mean anything, and it may
 * stand still at any time.
 *
 * Each of these takes out one rule, and the check must fail:
 *   -DNO_CAS           a run is written whatever version it has by now
 *   -DFOLD_ANY_TOKEN   a leader takes a result of any lease of the job
 *   -DNO_WORKER_FENCE  a lease is counted as lost because its worker is silent, without shutting it out
 *   -DNO_MEMORY        a worker starts whatever stands in its mailbox and is not running
 *   -DRESULTS_LATER    a leader that sees a worker shut out goes by the results that it knew of before
 *
 * And these leave out a part of what can happen, so that more leaders and tokens fit:
 *   -DNO_PRESS         no job is told to stop
 *   -DNO_DRAIN         no worker hands a job back before it has started it
 */

#ifndef LEADERS
#define LEADERS 2
#endif
#ifndef TOKENS
#define TOKENS 2
#endif
#define WORKERS 2

#define DONE 1                 /* the job has succeeded */
#define BACK 2                 /* it was not started, or stopped: to be leased again */

typedef Run {
    byte version;
    byte counter;              /* the lease counter: the highest token given out */
    byte worker;               /* of the lease */
    byte token;                /* of the lease; 0: there is none */
    byte accepted              /* the token of the result that was accepted */
};
typedef Worker {
    byte version;
    bool fenced;
    byte entry;                /* the token in its mailbox under the job's key; 0: there is none */
    byte token;                /* of the result under that key */
    byte result
};

byte epoch;                    /* leaseTransitions of the shard's Lease: its leader */
Run record;
Worker workers[WORKERS + 1];   /* 0 is unused */

/* What each leader goes by: its caches, and the token of a lease that it took away as its worker did not stop. */
Run cached[LEADERS + 1];
Worker cached_workers[(LEADERS + 1) * (WORKERS + 1)];
byte withdrawn[LEADERS + 1];
#define seen(e, w) cached_workers[(e) * (WORKERS + 1) + (w)]

/* For the check alone, by token. */
bool given[TOKENS + 1];
bool started[TOKENS + 1];
bool lost[TOKENS + 1];         /* its worker was shut out, and the lease was counted as lost */

inline copy_run(to, from) {
    to.version = from.version; to.counter = from.counter; to.worker = from.worker; to.token = from.token;
    to.accepted = from.accepted
}

inline copy_worker(to, from) {
    to.version = from.version; to.fenced = from.fenced; to.entry = from.entry; to.token = from.token;
    to.result = from.result
}

#ifdef NO_CAS
#define same(stored, read) true
#else
#define same(stored, read) (stored == read)
#endif
#ifdef FOLD_ANY_TOKEN
#define answers(e, kind) (seen(e, cached[e].worker).token != 0 && seen(e, cached[e].worker).result == kind)
#else
#define answers(e, kind) (seen(e, cached[e].worker).token == cached[e].token && seen(e, cached[e].worker).result == kind)
#endif
#define silent(e) (seen(e, cached[e].worker).token != cached[e].token)
#ifdef NO_WORKER_FENCE
#define shut_out(e) true
#else
#define shut_out(e) seen(e, cached[e].worker).fenced
#endif
#define leads(e) (epoch == e && cached[e].accepted == 0)
#define leased(e) (leads(e) && cached[e].token != 0)
#define open(e) (leads(e) && cached[e].token == 0 && cached[e].counter < TOKENS)

mtype = { accept, settle, lose, lease };

/* The run's writer: fold a result, count a lease as lost or taken back, or lease; each is a compare-and-swap. */
proctype RunWriter(byte e) {
    mtype move;
    byte token, worker, version;
    do
    :: atomic {
        if
        :: leased(e) && answers(e, DONE) -> move = accept; token = seen(e, cached[e].worker).token
        :: leased(e) && answers(e, BACK) -> move = settle
        :: leased(e) && silent(e) && withdrawn[e] == cached[e].token -> move = settle
        :: leased(e) && silent(e) && shut_out(e) -> move = lose; token = cached[e].token; worker = cached[e].worker
        :: open(e) && !seen(e, 1).fenced -> move = lease; token = cached[e].counter + 1; worker = 1
        :: open(e) && !seen(e, 2).fenced && cached[e].counter > 0 -> /* the first one may as well be called 1 */
            move = lease; token = cached[e].counter + 1; worker = 2
        fi;
        version = cached[e].version }
       atomic {
        if
        :: same(record.version, version) ->
            if
            :: move == accept ->
                assert(record.accepted == 0);
                assert(token == record.counter);
                record.accepted = token; record.token = 0; record.worker = 0
            :: move == settle -> record.token = 0; record.worker = 0
            :: move == lose ->
                assert(workers[worker].token != token || workers[worker].result != DONE);
                lost[token] = true; record.token = 0; record.worker = 0
            :: move == lease ->
                assert(!given[token]);
                given[token] = true; record.counter = token; record.token = token; record.worker = worker
            fi;
            record.version++           /* its answer is like any news: the watch brings it, sooner or later */
        :: else
        fi;
        move = 0; token = 0; worker = 0; version = 0 }
    :: atomic { epoch > e -> break }
    od
}

#define recorded(e, w) (seen(e, w).entry != 0 && cached[e].worker == w && cached[e].token == seen(e, w).entry)
#define undelivered(e, w) (cached[e].worker == w && cached[e].token > seen(e, w).entry && withdrawn[e] != cached[e].token)

/* A mailbox's writer: deliver what the run records; take away what it does not, or what was told to stop and does not. */
proctype MailboxWriter(byte e; byte w) {
    byte entry, taken, version;
    bool pressed;              /* once is enough */
    do
    :: atomic {
        if
        :: epoch == e && !seen(e, w).fenced && undelivered(e, w) -> entry = cached[e].token
        :: epoch == e && seen(e, w).entry != 0 && !recorded(e, w) -> skip
#ifndef NO_PRESS
        :: epoch == e && recorded(e, w) && seen(e, w).token != seen(e, w).entry && !pressed ->
            taken = seen(e, w).entry; pressed = true
#endif
        fi;
        version = seen(e, w).version }
       atomic {
        if
        :: workers[w].version == version && (entry == 0 || entry >= workers[w].entry) ->
            workers[w].entry = entry; workers[w].version++;
            if
            :: withdrawn[e] = (taken != 0 && epoch == e -> taken : withdrawn[e])
            :: skip                    /* its answer is lost */
            fi
        :: else
        fi;
        entry = 0; taken = 0; version = 0 }
    :: atomic { epoch > e -> break }
    od
}

#ifndef NO_WORKER_FENCE
/* Somebody takes the worker for dead, whatever it is doing, and shuts it out. */
proctype Fence(byte w) {
    atomic { workers[w].fenced = true; workers[w].version++ }
}
#endif

/* The watches: a cache becomes what is stored now. */
proctype Watch(byte e) {
    do
    :: atomic { epoch == e && cached[e].version != record.version -> copy_run(cached[e], record) }
#ifdef RESULTS_LATER
    :: atomic { epoch == e && seen(e, 1).version != workers[1].version -> seen(e, 1).fenced = workers[1].fenced }
    :: atomic { epoch == e && seen(e, 2).version != workers[2].version -> seen(e, 2).fenced = workers[2].fenced }
#endif
    :: atomic { epoch == e && seen(e, 1).version != workers[1].version -> copy_worker(seen(e, 1), workers[1]) }
    :: atomic { epoch == e && seen(e, 2).version != workers[2].version -> copy_worker(seen(e, 2), workers[2]) }
    :: atomic { epoch > e -> break }
    od
}

#define stored(w, t, kind) (workers[w].token == t && workers[w].result == kind)

/* A worker's process. It may stand still anywhere, and for ever. */
proctype WorkerProcess(byte w) {
    byte entry;                /* as its own watch has it */
    byte token;                /* the highest that it has taken up */
    byte running;              /* the token of its job */
    byte held, result;         /* an answer that is not stored yet, or not known to be */
    do
    :: atomic { entry != workers[w].entry -> entry = workers[w].entry; held = (entry == held -> held : 0) }
#ifdef NO_MEMORY
    :: atomic { entry != 0 && running == 0 && held != entry ->
#else
    :: atomic { entry > token && running == 0 ->
#endif
        token = entry;
        if
        :: running = entry; assert(!started[running]); started[running] = true
#ifndef NO_DRAIN
        :: held = entry; result = BACK /* it is draining, or full */
#endif
        fi }
    :: atomic { running != 0 && running == entry -> held = running; result = DONE; running = 0 }
    :: atomic { running != 0 && running != entry -> running = 0 } /* taken away: killed */
    :: atomic { entry != 0 && entry <= token && running != entry && held != entry -> held = entry; result = BACK }
    :: atomic { held != 0 && !workers[w].fenced && workers[w].entry == held && !stored(w, held, result) ->
        assert(!lost[held]);
        workers[w].token = held; workers[w].result = result; workers[w].version++ }
    od
}

/* A leader comes: the next epoch, then the barrier. Whatever the one before knew is of no use to it any more. */
proctype Leader(byte e) {
    atomic { epoch == e - 1 -> epoch = e;
        withdrawn[e - 1] = 0;
        copy_run(cached[e - 1], cached[0]); copy_worker(seen(e - 1, 1), seen(0, 0));
        copy_worker(seen(e - 1, 2), seen(0, 0));
        copy_run(cached[e], record); copy_worker(seen(e, 1), workers[1]); copy_worker(seen(e, 2), workers[2]);
        run RunWriter(e); run MailboxWriter(e, 1); run MailboxWriter(e, 2); run Watch(e) }
}

init {
    byte e = 1;
    atomic {
        run WorkerProcess(1); run WorkerProcess(2);
#ifndef NO_WORKER_FENCE
        run Fence(1); run Fence(2);
#endif
        do
        :: e <= LEADERS -> run Leader(e); e++
        :: else -> break
        od
    }
}
