// @vitest-environment node
import { describe, expect, it } from "vitest";
import { CODES } from "../../shared/i18n";
import { commandsOf, SPOKEN_LANGUAGES } from "./spokenCommands";
import { written } from "./spokenPunctuation";

const at = (before: string) => ({ before });

describe("the written form of recognized words", () => {
  it.each([
    [
      "en-US",
      "no nodule period no effusion comma no mass period",
      "No nodule. No effusion, no mass.",
    ],
    ["en-GB", "no nodule full stop new line heart normal", "No nodule.\nHeart normal"],
    ["de-DE", "kein Erguss Punkt neuer Absatz Herz normal", "Kein Erguss.\n\nHerz normal"],
    ["fr-FR", "pas de nodule point à la ligne cœur normal", "Pas de nodule.\nCœur normal"],
    ["fr-FR", "conclusion deux points normal", "Conclusion\u00a0: Normal"],
    [
      "nl-NL",
      "geen afwijking punt hart normaal komma geen vocht",
      "Geen afwijking. Hart normaal, geen vocht",
    ],
    ["it-IT", "nessun nodulo punto a capo cuore normale", "Nessun nodulo.\nCuore normale"],
    ["es-ES", "sin derrame coma sin masa punto y aparte normal", "Sin derrame, sin masa\nNormal"],
    ["pt-BR", "sem derrame ponto nova linha normal", "Sem derrame.\nNormal"],
    ["ro-RO", "fără leziuni punct rând nou normal", "Fără leziuni.\nNormal"],
    ["pl-PL", "bez zmian kropka nowa linia prawidłowe", "Bez zmian.\nPrawidłowe"],
    ["id-ID", "tidak ada nodul titik baris baru normal", "Tidak ada nodul.\nNormal"],
    ["ja-JP", "異常なし句点改行心臓は正常", "異常なし。\n心臓は正常"],
    ["zh-CN", "未见结节句号换行心脏正常", "未见结节。\n心脏正常"],
    ["zh-Hant", "未見結節句號換行心臟正常", "未見結節。\n心臟正常"],
    ["ko-KR", "결절 없음 마침표 새 줄 심장 정상", "결절 없음.\n심장 정상"],
  ])("%s: %s", (language, spoken, wanted) => {
    expect(written(spoken, language, at(""))).toBe(wanted);
  });

  it("continues in the middle of a line, and capitalizes after a full stop", () => {
    expect(written("and clear", "en-US", at("Lungs are large"))).toBe(" and clear");
    expect(written("heart is normal", "en-US", at("Lungs clear."))).toBe(" Heart is normal");
    expect(written("comma clear", "en-US", at("Lungs"))).toBe(", clear");
    expect(written("5 mm", "en-US", at("Nodule ("))).toBe("5 mm");
    expect(written("open parenthesis 5 close parenthesis", "en-US", at("x"))).toBe(" (5)");
  });

  it("keeps words that only sound like punctuation", () => {
    expect(written("wall of the colon", "en-US", at(""))).toBe("Wall of the colon");
    expect(written("ascending colon normal", "en-US", at(""))).toBe("Ascending colon normal");
    expect(written("during the period of rest", "en-US", at(""))).toBe("During the period of rest");
    expect(written("paciente en coma", "es-ES", at(""))).toBe("Paciente en coma");
    expect(written("periodic commas", "en-US", at(""))).toBe("Periodic commas");
    expect(written("てんかん", "ja-JP", at(""))).toBe("てんかん");
  });

  it("keeps punctuation of the recognizer", () => {
    expect(written(", clear.", "en-US", at("Lungs"))).toBe(", clear.");
    expect(written("no nodule. period", "en-US", at(""))).toBe("No nodule.");
  });

  it("has a full stop, a line and a paragraph in every language", () => {
    expect([...SPOKEN_LANGUAGES].sort()).toEqual([...CODES].sort());
    for (const code of CODES) {
      const all = commandsOf(code).map((command) => command.written);
      expect(all).toEqual(expect.arrayContaining(["\n", "\n\n"]));
      expect(all.some((mark) => mark === "." || mark === "。")).toBe(true);
    }
  });
});
