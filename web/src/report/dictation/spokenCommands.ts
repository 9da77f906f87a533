// Spoken punctuation and line commands by language. Data only.

export interface Command {
  spoken: string;
  written: string;
  /** The side without a space: `left` (the default) for a full stop. */
  glue?: "left" | "right" | "both";
}

type Words = readonly string[];

interface Marks {
  stop: Words;
  comma: Words;
  colon: Words;
  semicolon: Words;
  question: Words;
  exclamation: Words;
  hyphen: Words;
  slash: Words;
  open: Words;
  close: Words;
  line: Words;
  paragraph: Words;
}

const WESTERN: Readonly<Record<keyof Marks, Omit<Command, "spoken">>> = {
  stop: { written: "." },
  comma: { written: "," },
  colon: { written: ":" },
  semicolon: { written: ";" },
  question: { written: "?" },
  exclamation: { written: "!" },
  hyphen: { written: "-", glue: "both" },
  slash: { written: "/", glue: "both" },
  open: { written: "(", glue: "right" },
  close: { written: ")" },
  line: { written: "\n", glue: "both" },
  paragraph: { written: "\n\n", glue: "both" },
};
const WIDE: Partial<Record<keyof Marks, string>> = {
  stop: "。",
  comma: "，",
  colon: "：",
  semicolon: "；",
  question: "？",
  exclamation: "！",
  open: "（",
  close: "）",
};
const FRENCH: Partial<Record<keyof Marks, string>> = {
  colon: "\u00a0:",
  semicolon: "\u202f;",
  question: "\u202f?",
  exclamation: "\u202f!",
};

function table(marks: Marks, other: Partial<Record<keyof Marks, string>> = {}): Command[] {
  return (Object.keys(WESTERN) as (keyof Marks)[]).flatMap((mark) =>
    marks[mark].map((spoken) => {
      return { ...WESTERN[mark], written: other[mark] ?? WESTERN[mark].written, spoken };
    }),
  );
}

// The bowel is called colon too, so the punctuation mark has other words.
const ENGLISH: Marks = {
  stop: ["period", "full stop"],
  comma: ["comma"],
  colon: ["colon mark", "colon sign"],
  semicolon: ["semicolon"],
  question: ["question mark"],
  exclamation: ["exclamation mark", "exclamation point"],
  hyphen: ["hyphen"],
  slash: ["slash"],
  open: ["open parenthesis", "open bracket"],
  close: ["close parenthesis", "close bracket"],
  line: ["new line", "newline", "next line"],
  paragraph: ["new paragraph", "next paragraph"],
};
// Outside America, "period" is only a span of time.
const BRITISH: Marks = { ...ENGLISH, stop: ["full stop"] };
const CHINESE: Marks = {
  stop: ["句号", "句號"],
  comma: ["逗号", "逗號"],
  colon: ["冒号", "冒號"],
  semicolon: ["分号", "分號"],
  question: ["问号", "問號"],
  exclamation: ["感叹号", "感嘆號", "驚嘆號"],
  hyphen: ["连字符", "連字號"],
  slash: ["斜杠", "斜線"],
  open: ["左括号", "左括號"],
  close: ["右括号", "右括號"],
  line: ["换行", "換行"],
  paragraph: ["新段落", "另起一段"],
};
const FRENCH_WORDS: Marks = {
  stop: ["point"],
  comma: ["virgule"],
  colon: ["deux points", "deux-points"],
  semicolon: ["point virgule", "point-virgule"],
  question: ["point d'interrogation", "point d’interrogation"],
  exclamation: ["point d'exclamation", "point d’exclamation"],
  hyphen: ["trait d'union", "trait d’union"],
  slash: ["barre oblique"],
  open: ["ouvrir la parenthèse", "ouvrez la parenthèse"],
  close: ["fermer la parenthèse", "fermez la parenthèse"],
  line: ["à la ligne", "nouvelle ligne"],
  paragraph: ["nouveau paragraphe"],
};

const BY_LANGUAGE: Readonly<Record<string, readonly Command[]>> = {
  "en-US": table(ENGLISH),
  "en-GB": table(BRITISH),
  "en-AU": table(BRITISH),
  "zh-CN": table(CHINESE, WIDE),
  "zh-Hant": table(CHINESE, WIDE),
  "fr-FR": table(FRENCH_WORDS, FRENCH),
  "fr-CA": table(FRENCH_WORDS, { colon: "\u00a0:" }),
  "de-DE": table({
    stop: ["Punkt"],
    comma: ["Komma"],
    colon: ["Doppelpunkt"],
    semicolon: ["Semikolon", "Strichpunkt"],
    question: ["Fragezeichen"],
    exclamation: ["Ausrufezeichen"],
    hyphen: ["Bindestrich"],
    slash: ["Schrägstrich"],
    open: ["Klammer auf"],
    close: ["Klammer zu"],
    line: ["neue Zeile", "nächste Zeile"],
    paragraph: ["neuer Absatz", "nächster Absatz"],
  }),
  "nl-NL": table({
    stop: ["punt"],
    comma: ["komma"],
    colon: ["dubbele punt"],
    semicolon: ["puntkomma"],
    question: ["vraagteken"],
    exclamation: ["uitroepteken"],
    hyphen: ["koppelteken", "streepje"],
    slash: ["schuine streep"],
    open: ["haakje openen"],
    close: ["haakje sluiten"],
    line: ["nieuwe regel"],
    paragraph: ["nieuwe alinea"],
  }),
  "it-IT": table({
    stop: ["punto"],
    comma: ["virgola"],
    colon: ["due punti"],
    semicolon: ["punto e virgola"],
    question: ["punto interrogativo"],
    exclamation: ["punto esclamativo"],
    hyphen: ["trattino"],
    slash: ["barra"],
    open: ["aperta parentesi", "apri parentesi"],
    close: ["chiusa parentesi", "chiudi parentesi"],
    line: ["a capo", "nuova riga"],
    paragraph: ["nuovo paragrafo"],
  }),
  "es-ES": table({
    stop: ["punto"],
    comma: ["coma"],
    colon: ["dos puntos"],
    semicolon: ["punto y coma"],
    question: ["cerrar interrogación", "signo de interrogación"],
    exclamation: ["cerrar exclamación", "signo de exclamación"],
    hyphen: ["guion", "guión"],
    slash: ["barra"],
    open: ["abrir paréntesis"],
    close: ["cerrar paréntesis"],
    line: ["nueva línea", "punto y aparte"],
    paragraph: ["nuevo párrafo"],
  }),
  "pt-BR": table({
    stop: ["ponto", "ponto final"],
    comma: ["vírgula"],
    colon: ["dois pontos"],
    semicolon: ["ponto e vírgula"],
    question: ["ponto de interrogação"],
    exclamation: ["ponto de exclamação"],
    hyphen: ["hífen"],
    slash: ["barra"],
    open: ["abre parênteses", "abrir parênteses"],
    close: ["fecha parênteses", "fechar parênteses"],
    line: ["nova linha"],
    paragraph: ["novo parágrafo"],
  }),
  "ro-RO": table({
    stop: ["punct"],
    comma: ["virgulă"],
    colon: ["două puncte"],
    semicolon: ["punct și virgulă"],
    question: ["semnul întrebării", "semn de întrebare"],
    exclamation: ["semnul exclamării", "semn de exclamare"],
    hyphen: ["cratimă"],
    slash: ["bară oblică"],
    open: ["deschide paranteza"],
    close: ["închide paranteza"],
    line: ["rând nou", "linie nouă"],
    paragraph: ["paragraf nou"],
  }),
  "pl-PL": table({
    stop: ["kropka"],
    comma: ["przecinek"],
    colon: ["dwukropek"],
    semicolon: ["średnik"],
    question: ["znak zapytania"],
    exclamation: ["wykrzyknik"],
    hyphen: ["łącznik", "myślnik"],
    slash: ["ukośnik"],
    open: ["otwórz nawias"],
    close: ["zamknij nawias"],
    line: ["nowa linia", "nowy wiersz"],
    paragraph: ["nowy akapit"],
  }),
  "id-ID": table({
    stop: ["titik"],
    comma: ["koma"],
    colon: ["titik dua"],
    semicolon: ["titik koma"],
    question: ["tanda tanya"],
    exclamation: ["tanda seru"],
    hyphen: ["tanda hubung"],
    slash: ["garis miring"],
    open: ["buka kurung"],
    close: ["tutup kurung"],
    line: ["baris baru"],
    paragraph: ["paragraf baru"],
  }),
  "ja-JP": table(
    {
      stop: ["句点"],
      comma: ["読点"],
      colon: ["コロン"],
      semicolon: ["セミコロン"],
      question: ["疑問符"],
      exclamation: ["感嘆符"],
      hyphen: ["ハイフン"],
      slash: ["スラッシュ"],
      open: ["かっこ開く", "括弧開く"],
      close: ["かっこ閉じる", "括弧閉じる"],
      line: ["改行"],
      paragraph: ["改段落", "新しい段落"],
    },
    { ...WIDE, comma: "、" },
  ),
  "ko-KR": table({
    stop: ["마침표"],
    comma: ["쉼표"],
    colon: ["쌍점", "콜론"],
    semicolon: ["쌍반점", "세미콜론"],
    question: ["물음표"],
    exclamation: ["느낌표"],
    hyphen: ["붙임표", "하이픈"],
    slash: ["빗금", "슬래시"],
    open: ["괄호 열고", "괄호 열기"],
    close: ["괄호 닫고", "괄호 닫기"],
    line: ["줄 바꿈", "새 줄", "줄바꿈"],
    paragraph: ["새 문단", "새 단락"],
  }),
};

export const SPOKEN_LANGUAGES = Object.keys(BY_LANGUAGE);

/** Returns the commands of a language, or those of English. */
export function commandsOf(language: string): readonly Command[] {
  return BY_LANGUAGE[language] ?? (BY_LANGUAGE["en-US"] as readonly Command[]);
}
