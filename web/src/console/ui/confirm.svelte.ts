// Asks a person before what cannot be undone or touches more than one row.

export interface Question {
  title: string;
  lead: string;
  /** The button: "Replay 214 messages", never "OK". */
  verb: string;
  tone?: "main" | "danger";
  /** Asks for a reason, which the audit trail keeps. */
  reason?: boolean;
  /** The number that must be typed. */
  typed?: number | undefined;
}
export interface Answer {
  reason: string;
}

interface Asked extends Question {
  answer: (answer: Answer | null) => void;
}
let asked = $state.raw<Asked | null>(null);

export const confirmation = {
  get asked(): Asked | null {
    return asked;
  },
};

/** Asks; null: the person cancelled. */
export function confirm(question: Question): Promise<Answer | null> {
  asked?.answer(null);
  return new Promise((resolve) => {
    asked = {
      ...question,
      answer: (answer) => {
        asked = null;
        resolve(answer);
      },
    };
  });
}
