// Determiners by language. A word after a determiner is not spoken punctuation ("en coma",
// "the period", "un point") and is written as a word. Data only.

const ENGLISH = "a an the this that each every any of in during per time same first last".split(
  " ",
);

const BY_PRIMARY: Readonly<Record<string, readonly string[]>> = {
  en: ENGLISH,
  de: "ein einen einem der den dem des am im pro jeder jeden dieser diesen diesem".split(" "),
  nl: "een de het op dit dat deze die per elk ieder".split(" "),
  fr: "un une le la ce cette au du de en à ces les des chaque quel".split(" "),
  it: "un una il la lo al del nel in di questo quel ogni".split(" "),
  es: "un una el la al del en de este esta ese esa cada".split(" "),
  pt: "um uma o a ao do no em de este esse cada".split(" "),
  ro: "un o la din pe în acest acel de fiecare".split(" "),
  pl: "ta ten to jedna jeden w na każda".split(" "),
  id: "sebuah suatu pada di setiap satu".split(" "),
};

export function leadingWords(language: string): readonly string[] {
  return BY_PRIMARY[language.slice(0, 2)] ?? [];
}
