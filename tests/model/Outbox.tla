------------------------------- MODULE Outbox -------------------------------
(* The outbox of one destination: releases of two reports, couriers, and the reply policy.

   A delivery is composed once, under one control id. A courier claims the first delivery of a report,
   sends it, and settles it by the reply. The connection may break before or after the receiver has
   read the message; a courier may be killed or freeze. An accepted delivery whose acceptance is
   recorded is not sent again.

   The look at the lease and the write of the message are one step here. A courier that freezes
   between them for longer than its lease sends a message once more, under the same control id.

   Bug selects a fault that is known: `run.py` shows that the model finds each. *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Couriers, MaxFaults, Bug

Deliveries == 1..3
ReportOf == <<"r", "r", "s">>                       \* the second is an addendum to the first

(* --algorithm Outbox {
  variables
    state = [d \in Deliveries |-> "queued"];        \* queued, claimed, accepted, parked
    token = [d \in Deliveries |-> 0];
    owner = [d \in Deliveries |-> "nobody"];
    alive = [c \in Couriers |-> TRUE];
    received = <<>>;                                \* deliveries that the receiver read
    resent = FALSE;                                 \* sent after its acceptance was recorded
    stale = FALSE;
    faults = 0;

  define {
    Before(d) == {e \in Deliveries : e < d /\ ReportOf[e] = ReportOf[d]}
    MayRun(d) == /\ state[d] = "queued"
                 /\ \/ Bug = "overtaking"
                    \/ \A e \in Before(d) : state[e] \in {"accepted", "parked"}
    First(d) == CHOOSE i \in 1..Len(received) : received[i] = d /\
                  \A j \in 1..(i - 1) : received[j] # d
    Seen == {received[i] : i \in 1..Len(received)}

    OrderPerReport == \A d, e \in Seen : e \in Before(d) => First(e) < First(d)
    AcceptedOnce == ~resent
    OnlyOwnersSettle == ~stale
    EveryReleaseArrives == <>(Seen = Deliveries)
    EveryDeliveryEnds == <>[](\A d \in Deliveries : state[d] \in {"accepted", "parked"})
  }

  fair process (courier \in Couriers)
    variables mine = 0; ticket = 0; reply = "none"; {
    Claim:
      while (TRUE) {
        await alive[self];
        with (d \in {x \in Deliveries : MayRun(x)}) {
          state[d] := "claimed";
          token[d] := token[d] + 1;
          owner[d] := self;
          mine := d;
          ticket := token[d];
        };
    Send:
        if (Bug # "sends without a lease"
            /\ (token[mine] # ticket \/ owner[mine] # self \/ state[mine] # "claimed")) {
          reply := "none";                          \* its lease is over: it sends nothing
        } else { either {
          resent := resent \/ state[mine] = "accepted";
          received := Append(received, mine);
          reply := "AA";
        } or {                                      \* the connection breaks before the message
          await faults < MaxFaults;
          faults := faults + 1;
          reply := "none";
        } or {                                      \* or before the reply
          await faults < MaxFaults;
          faults := faults + 1;
          resent := resent \/ state[mine] = "accepted";
          received := Append(received, mine);
          reply := "none";
        }};
    Settle:
        if ((state[mine] = "claimed" /\ token[mine] = ticket) \/ Bug = "stale settlement") {
          stale := stale \/ state[mine] # "claimed" \/ token[mine] # ticket;
          state[mine] := IF reply = "AA" THEN "accepted" ELSE "queued";
        };
      }
  }

  process (fate = "fate") {
    Stop:
      while (faults < MaxFaults) {
        with (c \in {x \in Couriers : alive[x]}) {
          faults := faults + 1;
          alive[c] := FALSE;
        };
      }
  }

  fair process (failover = "failover") {
    Requeue:
      while (TRUE) {
        with (c \in {x \in Couriers : ~alive[x]}) {
          state := [d \in Deliveries |->
            IF state[d] = "claimed" /\ owner[d] = c THEN "queued" ELSE state[d]];
          alive[c] := TRUE;
        };
      }
  }
} *)
=============================================================================
