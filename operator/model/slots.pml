/* One DAG's slots: their runs are created, marked and deleted, while the leader changes.
 *
 * The promise: a slot gives one run. Put so that it can be checked: of all runs that were ever created under a slot's
 * name, at most one is ever planned.
 *
 * Leaders come one after the other, each under the next epoch, and decide only while the epoch is theirs. What one has
 * decided then stands in `creating`, `marking` or `deleting` and arrives at any later time, or never. That is all of a
 * slow network, a leader that was frozen between deciding and sending, and a leader that has died. The policy that
 * refuses old epochs hears of a new one with a delay of any length.
 *
 * Each of these takes out one rule, and the check must fail:
 *   -DNO_FENCE        the API server compares no epochs
 *   -DNO_LIVE_READ    a new leader believes its cache about the mark
 *   -DNO_BARRIER      a new leader believes its cache about the runs
 *   -DDELETE_UNMARKED a run is deleted though no stored mark has passed it
 *   -DDELETE_AT_ONCE  a new leader deletes at once, when the policy may not have heard of its epoch yet
 */

#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef LEADERS
#define LEADERS 3
#endif

/* What is stored. Slots, leaders and UIDs count from 1; 0 is none. */
byte epoch;                    /* leaseTransitions of the shard's Lease: its leader */
byte fence;                    /* the epoch that the policy has heard of */
byte mark;                     /* DAG.status.lastScheduledTime */
byte uid[SLOTS + 1];           /* of the run that bears the slot's name */
byte born[SLOTS + 1];          /* how many have borne it */
bool over[SLOTS + 1];          /* whether that run has finished */

/* What is on its way, by sender. */
byte creating[LEADERS + 1];    /* a slot */
byte abandoned[LEADERS + 1];   /* a slot: a create whose answer is waited for no more */
byte marking[LEADERS + 1];     /* the mark to be stored */
byte deleting[LEADERS + 1];    /* a slot, and the UID that it names */
byte deleting_uid[LEADERS + 1];
byte created_uid[LEADERS + 1]; /* what the create was answered: a UID, or one of these */
#define WAITING 0
#define EXISTS 254
#define FORBIDDEN 255

byte planned[SLOTS + 1];       /* for the check alone: the run of the slot that somebody has planned */

#ifdef NO_FENCE
#define too_late(e) false
#else
#define too_late(e) (e < fence)
#endif

inline arrive(slot, response) {
    if
    :: too_late(e) -> response = FORBIDDEN
    :: else ->
        if
        :: uid[slot] != 0 -> response = EXISTS
        :: else -> born[slot]++; uid[slot] = born[slot]; over[slot] = false; response = uid[slot]
        fi
    fi
}

proctype Network(byte e) {
    byte unheard;
    do
    :: d_step { creating[e] != 0 && created_uid[e] == WAITING -> arrive(creating[e], created_uid[e]) }
    :: d_step { abandoned[e] != 0 -> arrive(abandoned[e], unheard); abandoned[e] = 0; unheard = 0 }
    :: d_step { marking[e] != 0 -> mark = (marking[e] > mark -> marking[e] : mark); marking[e] = 0 }
    :: marking[e] != 0 -> marking[e] = 0
    :: d_step { deleting[e] != 0 ->
        uid[deleting[e]] = (uid[deleting[e]] == deleting_uid[e] -> 0 : uid[deleting[e]]);
        deleting[e] = 0; deleting_uid[e] = 0 }
    od
}

proctype Policy() {
    do
    :: d_step { fence < epoch -> fence++ }
    od
}

/* A run of a slot that this leader has seen fired, or that lies below the mark: no leader of now has made it. */
#define ghost(s) ((fired[s] != 0 && seen[s] != fired[s]) || (fired[s] == 0 && s < known))

/* History: what must hold before a finished run is deleted. No create that its sender has given up is still on its way
 * (requests do not live for two minutes, runs do). */
#define deletable(s, e) (passed(s) && heard(e) && settled(s))
#if LEADERS == 2
#define settled(s) (abandoned[1] != s && abandoned[2] != s)
#else
#define settled(s) (abandoned[1] != s && abandoned[2] != s && abandoned[3] != s)
#endif
#ifdef DELETE_UNMARKED
#define passed(s) true
#else
#define passed(s) (mark >= s)
#endif
#ifdef DELETE_AT_ONCE
#define heard(e) true
#else
#define heard(e) (fence >= e)
#endif

/* After a create without a clear answer: what stands there under the name is the slot's run, whoever has made it. */
inline adopt() {
    if
    :: uid[creating[e]] != 0 -> known = creating[e]; fired[known] = uid[known]; seen[known] = uid[known]
    :: else
    fi
}

proctype Leader(byte e) {
    byte known;                /* the mark in memory */
    byte fired[SLOTS + 1];     /* the UIDs of the slots' runs that it knows it has fired or adopted */
    byte seen[SLOTS + 1];      /* its cache of the runs */
    byte s;

    atomic { epoch == e - 1 -> epoch = e }
    select(s : 0 .. mark);
    known = s;                 /* its cache of the DAG: as it once was */
#ifndef NO_BARRIER
    d_step { s = 1; do :: s <= SLOTS -> seen[s] = uid[s]; s++ :: else -> break od }
#endif
#ifndef NO_LIVE_READ
    known = mark;
#endif
    d_step { s = 1; do :: s <= SLOTS -> known = (seen[s] != 0 && s > known -> s : known); s++ :: else -> break od }

    do
    :: atomic { epoch == e && creating[e] == 0 && known < SLOTS -> creating[e] = known + 1 }
    :: atomic { epoch == e && created_uid[e] != WAITING ->
        if
        :: created_uid[e] < EXISTS -> known = creating[e]; fired[known] = created_uid[e]; seen[known] = created_uid[e]
        :: created_uid[e] == EXISTS -> adopt()
        :: created_uid[e] == FORBIDDEN -> skip
        fi;
        creating[e] = 0; created_uid[e] = WAITING }
    :: atomic { epoch == e && creating[e] != 0 && abandoned[e] == 0 -> /* no answer comes */
        abandoned[e] = (created_uid[e] == WAITING -> creating[e] : 0);
        adopt();
        creating[e] = 0; created_uid[e] = WAITING }
    :: atomic { epoch == e && marking[e] == 0 && known > mark -> marking[e] = known }
    :: atomic { epoch == e ->
        select(s : 1 .. SLOTS);
        if
        :: seen[s] != uid[s] -> seen[s] = uid[s]                                       /* the watch */
        :: epoch == e && seen[s] != 0 && seen[s] == uid[s] && !ghost(s) && !over[s] -> /* plan, until it ends */
            planned[s] = (planned[s] == 0 -> seen[s] : planned[s]);
            assert(planned[s] == seen[s]);
            over[s] = true
        :: epoch == e && deleting[e] == 0 && seen[s] != 0 && creating[e] != s && ghost(s) ->
            deleting[e] = s; deleting_uid[e] = seen[s]
        :: epoch == e && deleting[e] == 0 && seen[s] != 0 && seen[s] == uid[s] && over[s] && deletable(s, e) ->
            deleting[e] = s; deleting_uid[e] = seen[s]
        :: else
        fi; s = 0 }
    :: epoch != e -> break
    od
}

init {
    byte e = 1;
    atomic {
        run Policy();
        do :: e <= LEADERS -> run Leader(e); run Network(e); e++ :: else -> break od
    }
}
