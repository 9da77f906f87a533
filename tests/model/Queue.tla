------------------------------- MODULE Queue -------------------------------
(* Lanes, claims, leases, failover, outcomes, replay and merge of the inbox.

   Each label is one transaction of the database, or one call of the report engine. A worker looks for
   messages that may run, locks their lanes, claims, applies and settles them. Its process may be
   killed, or freeze and go on later. Failover requeues the claims of a worker whose lease is over.

   Bug selects a fault that is known: `run.py` shows that the model finds each. *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Workers, Count, MaxStops, MaxReplays, Bug

Messages == 1..Count
Lanes == {"a", "b"}
LanesOf == <<{"a"}, {"b"}, {"a", "b"}, {"b"}>>     \* the third message merges two patients
Orders == IF Bug = "locks wait" THEN {<<"a", "b">>, <<"b", "a">>} ELSE {<<"a", "b">>}
Share(m, n) == LanesOf[m] \cap LanesOf[n] # {}

RECURSIVE Sorted(_)
Sorted(S) == IF S = {} THEN <<>>
             ELSE LET m == CHOOSE x \in S : \A y \in S : x <= y IN <<m>> \o Sorted(S \ {m})

(* --algorithm Queue {
  variables
    state = [m \in Messages |-> "queued"];          \* queued, claimed, done, parked
    token = [m \in Messages |-> 0];                 \* counts claims; a settlement names its own
    owner = [m \in Messages |-> "nobody"];
    lock = [l \in Lanes |-> "free"];                \* row locks of running transactions
    alive = [w \in Workers |-> TRUE];               \* the heartbeat of a worker is seen
    killed = [w \in Workers |-> FALSE];             \* its process has lost what it remembered
    broken = [w \in Workers |-> FALSE];             \* its transaction was rolled back
    order = <<>>;                                   \* messages in the order of their first end
    replayed = {};
    stale = FALSE;                                  \* a settlement without a claim was accepted
    stops = 0;

  define {
    Ended == {m \in Messages : state[m] \in {"done", "parked"}}
    MayRun(m) == /\ state[m] = "queued"
                 /\ \A n \in Messages : n # m /\ Share(m, n) =>
                      state[n] # "claimed" /\ (n < m => n \in Ended)
    Ready == {m \in Messages : MayRun(m)}

    OneClaimPerLane == \A m, n \in Messages :
      m # n /\ state[m] = "claimed" /\ state[n] = "claimed" => ~Share(m, n)
    OrderPerLane == \A i, j \in 1..Len(order) :
      i < j /\ Share(order[i], order[j]) => order[i] < order[j]
    OnlyOwnersSettle == ~stale
    EveryMessageEnds == <>[](Ended = Messages)
  }

  fair process (worker \in Workers)
    variables batch = {}; wanted = <<>>; mine = [m \in Messages |-> 0]; {
    Look:
      while (TRUE) {
        await Ready # {} /\ alive[self];
        killed[self] := FALSE;
        broken[self] := FALSE;
        with (chosen \in SUBSET Ready \ {{}}; first \in Orders) {
          batch := chosen;
          wanted := first;
        };
    LockLanes:
        while (wanted # <<>>) {
          if (\A m \in batch : Head(wanted) \notin LanesOf[m]) {
            wanted := Tail(wanted);
          } else if (lock[Head(wanted)] = "free") {
            lock[Head(wanted)] := self;
            wanted := Tail(wanted);
          } else if (Bug = "locks wait") {
            await lock[Head(wanted)] = "free";
          } else {                                  \* pass over what another worker locks
            batch := {m \in batch : Head(wanted) \notin LanesOf[m]};
            wanted := Tail(wanted);
          };
        };
    Claim:
        if (broken[self]) {
          batch := {};
        } else if (Bug = "claims without a look") {
          skip;
        } else {
          batch := {m \in batch : MayRun(m)};
        };
        state := [m \in Messages |-> IF m \in batch THEN "claimed" ELSE state[m]];
        token := [m \in Messages |-> IF m \in batch THEN token[m] + 1 ELSE token[m]];
        owner := [m \in Messages |-> IF m \in batch THEN self ELSE owner[m]];
        mine := token;
        lock := [l \in Lanes |-> IF lock[l] = self THEN "free" ELSE lock[l]];
    Apply:
        skip;                                       \* the calls of the engine are idempotent
    Settle:
        if (~killed[self]) {
          with (settled = {m \in batch : (state[m] = "claimed" /\ token[m] = mine[m])
                                         \/ Bug = "stale settlement"};
                outcome \in {"done", "parked"}) {
            stale := stale \/ \E m \in settled : state[m] # "claimed" \/ token[m] # mine[m];
            order := order \o Sorted({m \in settled : m \notin replayed});
            state := [m \in Messages |-> IF m \in settled THEN outcome ELSE state[m]];
          };
        };
        batch := {};
      }
  }

  process (operator = "operator")
    variables replays = 0; {
    Replay:
      while (replays < MaxReplays) {
        with (m \in Ended) {
          state[m] := "queued";
          replayed := replayed \cup {m};
          replays := replays + 1;
        };
      }
  }

  process (fate = "fate") {
    Stop:
      while (stops < MaxStops) {
        with (w \in {x \in Workers : alive[x]}; kill \in BOOLEAN) {
          stops := stops + 1;
          alive[w] := FALSE;
          killed[w] := kill;
          broken[w] := TRUE;
          lock := [l \in Lanes |-> IF lock[l] = w THEN "free" ELSE lock[l]];
        };
      }
  }

  fair process (failover = "failover") {
    Requeue:
      while (TRUE) {
        with (w \in {x \in Workers : ~alive[x]}) {
          state := [m \in Messages |->
            IF state[m] = "claimed" /\ owner[m] = w THEN "queued" ELSE state[m]];
          alive[w] := TRUE;
        };
      }
  }
} *)
=============================================================================
